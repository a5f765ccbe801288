"""The state of a dispatcher as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ValidationError

from callboard.agents.handoff import Handoff

from .entries import Entry, check_handoff
from .errors import DispatchError, DispatcherStateError


class SavedHandoff(BaseModel):
    """A handoff that came at run time; see `Entry` for the attributes."""

    name: str
    target: str
    description: str
    message: str
    origin: Literal["added", "created"]
    enabled: bool = True
    born: int = 0
    uses: int = 0

    @classmethod
    def of(cls, entry: Entry) -> Self:
        """The entry as plain data."""
        return cls.model_validate(
            {
                **entry.handoff.model_dump(),
                "origin": entry.origin,
                "enabled": entry.enabled,
                "born": entry.born,
                "uses": entry.uses,
            }
        )

    def to_entry(self) -> Entry:
        """The entry.

        Raises:
            DispatchError: It can't be shown to models.
        """
        handoff = Handoff(
            name=self.name, target=self.target, description=self.description, message=self.message
        )
        return Entry(check_handoff(handoff), self.origin, self.enabled, born=self.born, uses=self.uses)


class DynamicDispatcherState(BaseModel):
    """The state of a DynamicDispatcher.

    Attributes:
        turn: How many turns its agents have begun.
        handoffs: Those that came at run time, oldest first.
        enabled: By name, whether models are shown it.
        deleted: Names of handoffs that the constructor was given, and which are gone.
    """

    type: Literal["DynamicDispatcherState"] = "DynamicDispatcherState"
    version: str = "1.0.0"
    turn: int = 0
    handoffs: list[SavedHandoff] = []
    enabled: dict[str, bool] = {}
    deleted: list[str] = []


def read_state(state: Mapping[str, Any], limit: int) -> tuple[DynamicDispatcherState, list[Entry]]:
    """The state, and the handoffs in it.

    Args:
        state: Plain data.
        limit: How many handoffs it may have.

    Raises:
        DispatcherStateError: It is no state of a DynamicDispatcher (a ValueError).
    """
    try:
        saved = DynamicDispatcherState.model_validate(state)
        entries = [one.to_entry() for one in saved.handoffs]
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise DispatcherStateError(f"{place}: {first['msg']}") from error
    except DispatchError as error:
        raise DispatcherStateError(str(error)) from error
    if len(entries) > limit:
        raise DispatcherStateError(f"it has {len(entries)} handoffs: at most {limit} are allowed")
    if len({entry.handoff.name for entry in entries}) < len(entries):
        raise DispatcherStateError("two handoffs have one name")
    return saved, entries
