"""How a handler waits for the answer to a question: every process needs this, the questions themselves only who asks."""

from __future__ import annotations

from enum import Enum
from typing import Final


class Unset(Enum):
    """What stands for a value that was not given, where None is one."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


class Suspended(BaseException):
    """The handler has asked something and ends here: it runs again when the answer has come.

    The runtime raises it out of `ctx.ask`, and ends the delivery by it. Let it pass, as you would CancelledError; what
    catches it changes nothing, since the attempt is over and nothing of it is committed.
    """


def suspends(error: BaseException) -> bool:
    """Whether a handler ends with this to wait for an answer: a task group makes a group of it."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(Suspended) is not None
    return isinstance(error, Suspended)
