"""What carries things that were said writes itself: a turn writes three such messages, and nothing else as dear."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from callboard.agents.task import Said
from callboard.broker.encoding.plain import plain
from callboard.broker.encoding.shape import Shape
from callboard.messages.base import BaseMessage

AROUND: Final = 2  # containers that a message is in: the map of what carries it, and the list
FLAT: Final = frozenset({str, int, bool, tuple, type(None)})
"""Types of fields that need no second look: the tuples of what carries messages hold numbers."""


@cache
def _depth_of(message_type: type[BaseMessage]) -> int | None:
    """How many containers lie within one another in what `dump` returns, at most; None: that is not known before."""
    shape = Shape.of(message_type.__pydantic_core_schema__)
    return None if shape.is_open or message_type.dump is not BaseMessage.dump else shape.levels


def plain_of(message: Said, max_depth: int) -> Any:
    """What `dump` returns, as it can be packed: made only of what msgpack has, with text as map keys.

    Raises:
        UnwritableError: It is nested too deep, or has something else in it, which a `dump` of the user's own has put there.
    """
    data = message.dump()
    depth = _depth_of(type(message))
    # pydantic's mode "json" makes nothing else of fields that it knows: there is nothing to look for.
    return data if depth is not None and depth <= max_depth else plain(data, max_depth)


class Carrying:
    """A message with a field `messages` of what was said, beside its base class. `MessageEntry` says how it is written."""

    def __callboard_plain__(self, max_depth: int) -> dict[str, Any]:
        """The fields as they can be packed."""
        data = self.__dict__.copy()
        for name, value in data.items():
            if name == "messages":
                data[name] = [plain_of(message, max_depth - AROUND) for message in value]
            elif type(value) not in FLAT:
                data[name] = plain(value, max_depth - 1)
        return data
