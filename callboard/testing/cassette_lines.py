"""The lines of a cassette, checked: a file may have been cut off, merged or edited since it was written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from callboard.models.types import CreateResult
from callboard.runtime.taping import Take

from .errors import CassetteError

VERSION: Final = 1
LONGEST: Final = 200  # characters of what is wrong

T = TypeVar("T", bound=BaseModel)


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class Head(_Line):
    """The first line.

    Attributes:
        cassette: Version of the format.
        team: Name of the team.
        task: What it was to do, as text.
        stop_reason: Why the run ended.
        takes: How many follow.
        said: How many messages follow them; None: it was written when this was not counted.
    """

    cassette: Literal[1]
    team: str
    task: str
    stop_reason: str | None
    takes: int
    said: int | None = None


class SaidLine(_Line):
    """A message of the transcript, as a line."""

    source: str
    text: str


class _ModelRequest(_Line):
    messages: list[str]
    tools: list[str]
    last: str


class _ToolRequest(_Line):
    name: str
    arguments: str


class _ToolAnswer(_Line):
    name: str
    result: list[dict[str, Any]]


def read_lines(text: str) -> tuple[Head, Sequence[Take], Sequence[SaidLine]]:
    """The lines of a cassette.

    Raises:
        CassetteError: One of them is none, or some are missing; it says which (a ValueError).
    """
    # Not `splitlines`: it also parts lines within texts, at U+2028 and others that JSON leaves as they are.
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise CassetteError("it is empty")
    head = _head(*lines[0])
    takes = [_take(*line) for line in lines[1 : head.takes + 1]]
    said = [_read(SaidLine, *line) for line in lines[head.takes + 1 :]]
    for what, found, expected in (("takes", len(takes), head.takes), ("messages", len(said), head.said)):
        if expected is not None and found != expected:
            raise CassetteError(f"it has {found} of its {expected} {what}: it was cut off, or edited")
    return head, takes, said


def _head(number: int, line: str) -> Head:
    found = _parsed(number, line)
    version = found.get("cassette") if isinstance(found, dict) else None
    if isinstance(version, int) and version != VERSION:
        raise CassetteError(f"it is of version {version}, and {VERSION} is known here")
    head = _checked(Head, number, found)
    if head.takes < 0:
        raise CassetteError(f"line {number}: takes={head.takes} can't be")
    return head


def _take(number: int, line: str) -> Take:
    take = _read(Take, number, line)
    is_model = take.kind == "model"
    _checked(_ModelRequest if is_model else _ToolRequest, number, take.request, "request")
    if take.answer is not None:
        _checked(CreateResult if is_model else _ToolAnswer, number, take.answer, "answer")
    return take


def _read(cls: type[T], number: int, line: str) -> T:
    return _checked(cls, number, _parsed(number, line))


def _parsed(number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise CassetteError(f"line {number} is no JSON: {error.msg}, at character {error.colno}") from error
    except ValueError as error:  # a number of thousands of digits
        raise CassetteError(f"line {number} is no JSON: {str(error)[:LONGEST]}") from error
    except RecursionError as error:
        raise CassetteError(f"line {number} has lists in lists without end") from error


def _checked(cls: type[T], number: int, value: Any, part: str = "") -> T:
    try:
        return cls.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, (*([part] if part else []), *first["loc"])))
        at = f" at {where!r}" if where else ""
        raise CassetteError(f"line {number}{at}: {first['msg']}"[:LONGEST]) from error
