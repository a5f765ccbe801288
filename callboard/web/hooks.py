"""Webhooks at a door: what is posted to /hooks/NAME is checked, and becomes a message of a topic."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from hashlib import blake2s

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as WebRoute

from callboard.app import App
from callboard.errors import SettingValueError
from callboard.foundation import CallboardError
from callboard.hooks.errors import WebhookSignatureError
from callboard.runtime.runtime import RedisAgentRuntime

from .access import DoorOptions
from .problems import RETRY, SAFE, Problem, not_found, problem_of
from .requests import body_of, check_origin, json_of, misfit


def routes(app: App, runtime: RedisAgentRuntime, options: DoorOptions) -> list[WebRoute]:
    """The route of the door.

    Args:
        app: Says what comes in.
        runtime: Reaches the server.
        options: The rules of the door. Its identities have no part in it: a signature says who sent it.
    """

    async def answer(request: Request) -> Response:
        try:
            check_origin(request, options)
            await _receive(app, runtime, request, options)
        except WebhookSignatureError as error:
            raise Problem(401, str(error)) from None
        except CallboardError as error:
            problem = problem_of(error)
            if problem is None:
                raise
            raise problem from None
        return Response(status_code=204, headers=dict(SAFE))

    return [WebRoute("/hooks/{name}", answer, methods=["POST"])]


async def _receive(app: App, runtime: RedisAgentRuntime, request: Request, options: DoorOptions) -> None:
    name = request.path_params["name"]
    hook = app.hooks.get(name)
    if hook is None:
        raise not_found(f"webhook {name!r}")
    headers = _once(request, hook.headers)
    body = await body_of(request, options)
    try:
        webhook_id = hook.check(headers, body, time.time())
    except SettingValueError:
        raise Problem(503, "this webhook has no secret here: set it where the door runs", RETRY) from None
    try:
        made = hook.message(headers, json_of(request, body))
    except ValidationError as error:
        raise Problem(422, misfit(error, "the body")) from None
    if made is None:
        return
    await runtime.open()
    # The same whichever door it comes to, and no other webhook's.
    digest = blake2s(webhook_id.encode(), digest_size=16).hexdigest()
    await runtime.publish_message(*made, message_id=f"hook:{name}:{digest}")


def _once(request: Request, names: Sequence[str]) -> Mapping[str, str]:
    """The headers of these names. Two of one would be read as the first by one program, by another as the last."""
    found = {name: request.headers.getlist(name) for name in names}
    for name, values in found.items():
        if len(values) > 1:
            raise Problem(400, f"the header {name!r} is given twice")
        if not values:
            raise Problem(401, f"the webhook is refused: it has no header {name}")
    return {name: values[0] for name, values in found.items()}
