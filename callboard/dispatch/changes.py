"""What happens to handoffs, for those who keep watch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["created", "added", "deleted", "enabled", "disabled", "used", "expired", "hidden"]


@dataclass(frozen=True, slots=True)
class HandoffChange:
    """Something that happened to a handoff of a dispatcher.

    Attributes:
        kind: What.
        name: The name of the handoff.
        target: Its target.
        caller: The agent whose model asked for it; None: the program, or its lifetime.
    """

    kind: Kind
    name: str
    target: str
    caller: str | None = None
