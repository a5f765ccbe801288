"""Requests before they are answered: where they come from, whose they are, and what is in them."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.requests import Request

from callboard.broker.limits import STRING

from .access import DoorOptions, Identity, Tokens
from .problems import Problem

JSON: Final = "application/json"
DEEPEST: Final = 64  # arrays and objects in each other
ONCE: Final = (
    "host",
    "authorization",
    "content-length",
    "content-type",
    "idempotency-key",
    "last-event-id",
    "origin",
)
"""Headers of which two would be read by one program as the first, by another as the last."""

BodyT = TypeVar("BodyT", bound=BaseModel)


def check_origin(request: Request, options: DoorOptions) -> None:
    """Refuse what another page sends in the name of its reader, and names that are led to this address (DNS rebinding).

    Raises:
        Problem: It is refused.
    """
    for name in ONCE:
        if len(request.headers.getlist(name)) > 1:
            raise Problem(400, f"the header {name!r} is given twice")
    host = request.headers.get("host", "")
    if options.hosts is not None and (urlsplit(f"//{host}").hostname or "") not in options.hosts:
        raise Problem(
            421, "this address is not one that is served here; `callboard serve --host-name` adds one"
        )
    origin = request.headers.get("origin")
    if origin is not None and origin not in options.origins and urlsplit(origin).netloc != host:
        raise Problem(403, "a page of another address may not do this")


async def identity_of(request: Request, options: DoorOptions, scope: str) -> Identity:
    """Who asks.

    Raises:
        Problem: It is not known, or may not do this.
    """
    access = options.access
    if isinstance(access, Identity):
        found: Identity | None = access
    elif isinstance(access, Tokens):
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        found = access.identity_of(token.strip()) if kind.lower() == "bearer" else None
    else:
        named = access(request)
        found = await named if inspect.isawaitable(named) else named
    if found is None:
        raise Problem(401, "give a token: `Authorization: Bearer ...`", {"www-authenticate": "Bearer"})
    if scope not in found.scopes:
        raise Problem(403, f"this token may not do this: it lacks the scope {scope!r}")
    return found


async def body_of(request: Request, options: DoorOptions) -> bytes:
    """The body.

    Raises:
        Problem: It is too large.
    """
    found = bytearray()
    async for chunk in request.stream():
        found += chunk
        if len(found) > options.max_body:
            raise Problem(413, f"a body has {options.max_body:,} bytes at most", {"connection": "close"})
    return bytes(found)


def json_of(request: Request, body: bytes, kinds: Collection[str] = (JSON,)) -> Any:
    """A body as plain data.

    Args:
        request: Where it came.
        body: The body.
        kinds: Content types that are JSON here.

    Raises:
        Problem: It is something else.
    """
    # A form of another page can send any text but these types.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() not in kinds:
        raise Problem(415, "send JSON, with `Content-Type: application/json`")
    if _depth(body) > DEEPEST:
        raise Problem(400, f"JSON is nested {DEEPEST} deep at most")
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Problem(400, f"the body is no JSON: {error}") from None


def read_as(model: type[BodyT], request: Request, body: bytes) -> BodyT:
    """A body as JSON that is what a model says.

    Raises:
        Problem: It is something else.
    """
    found = json_of(request, body)
    try:
        return model.model_validate(found)
    except ValidationError as error:
        raise Problem(422, misfit(error, "the body")) from None


def misfit(error: ValidationError, whole: str) -> str:
    """The first thing that does not fit, as a sentence.

    Args:
        error: What pydantic says.
        whole: What it is called where all of it does not fit.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or whole}: {first['msg']}"


def _depth(body: bytes) -> int:
    deepest = depth = 0
    for byte in STRING.sub(b"", body):
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


def number_of(text: str | None, name: str, *, most: int, default: int) -> int:
    """A number of a query or a header.

    Raises:
        Problem: It is none, or too large.
    """
    if text is None:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 20 or int(text) > most:
        raise Problem(400, f"{name} is a whole number from 0 to {most:,}")
    return int(text)
