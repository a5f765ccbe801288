"""JSON that a model or a person wrote: whatever it is, reading it ends with a value or with a ValueError."""

from __future__ import annotations

import json
from typing import Any, Final

from .errors import CallboardError

MAX_DEPTH: Final = (
    100  # lists and objects in each other: no answer needs ten, and Python gives up near a thousand
)

_DECODER: Final = json.JSONDecoder()


class NestingError(CallboardError, ValueError):
    """A text is nested too deep.

    Attributes:
        most: How many lists and objects may stand in each other.
    """

    template = "it is nested deeper than {most} lists and objects"
    most: int = MAX_DEPTH


def read_json(text: str) -> Any:
    """What JSON says.

    Raises:
        NestingError: It is nested too deep (a ValueError).
        ValueError: It is no JSON.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise NestingError from None
    _check(value, text)
    return value


def read_value(text: str, position: int) -> tuple[Any, int]:
    """The JSON value that begins at a position of a text, and the position behind it.

    Raises:
        NestingError: It is nested too deep (a ValueError).
        ValueError: None begins there.
    """
    try:
        value, end = _DECODER.raw_decode(text, position)
    except RecursionError:
        raise NestingError from None
    _check(value, text)
    return value, end


def _check(value: Any, text: str) -> None:
    # Most texts have fewer brackets than may be in each other.
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer)]
        level = [inner for inner in level if isinstance(inner, dict | list)]
        if not level:
            return
    raise NestingError
