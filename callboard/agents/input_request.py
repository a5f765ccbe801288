"""The question that a person is being asked."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

from callboard.context import ContextScope
from callboard.errors import MisuseError, OutsideContextError

_request_id: Final[ContextVar[str]] = ContextVar("callboard_input_request")


class InputRequestContext:
    """Tells the function that asks a person which question it asks; `UserProxyAgent.InputRequestContext`."""

    def __init__(self) -> None:
        raise MisuseError(f"{type(self).__name__} cannot be instantiated: call its class methods.")

    @classmethod
    def populate_context(cls, ctx: str) -> ContextScope[str]:
        """For the length of a `with` block `ctx` is the id of the question."""
        return ContextScope(_request_id, ctx)

    @classmethod
    def request_id(cls) -> str:
        """The id of the question, which its UserInputRequestedEvent has too.

        Raises:
            OutsideContextError: No person is being asked (a RuntimeError).
        """
        try:
            return _request_id.get()
        except LookupError:
            raise OutsideContextError(
                "InputRequestContext.request_id()", "the input_func of a UserProxyAgent"
            ) from None
