"""The handoffs of a dispatcher with what is known of each, and the checks that all of them pass."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from callboard.agents.handoff import Handoff
from callboard.memory.llm_messages import LLMMessage
from callboard.tools.names import MAX_DESCRIPTION, NAME

from .errors import HandoffDeclarationError, NotAHandoffError

EnabledFunc: TypeAlias = Callable[[str, Sequence[LLMMessage]], bool]
"""Whether an agent's model is shown a handoff: of the agent's name and of what its model sees of the conversation. In a
handler it has to return the same in every attempt."""

Origin: TypeAlias = Literal["given", "added", "created"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A handoff in a dispatcher.

    Attributes:
        handoff: The handoff.
        origin: Whether the constructor was given it, the program added it, or it was created.
        enabled: Whether models are shown it.
        when: Whether they are shown it now; None: always.
        born: The turn in which it was created.
        uses: How often it was used.
    """

    handoff: Handoff
    origin: Origin
    enabled: bool = True
    when: EnabledFunc | None = None
    born: int = 0
    uses: int = 0

    @property
    def is_plain(self) -> bool:
        """Whether it can be written down."""
        return type(self.handoff) is Handoff and self.handoff.input_filter is None and self.when is None


def check_handoff(given: Any) -> Handoff:
    """The handoff, if models can be shown it.

    Raises:
        NotAHandoffError: It is none (a TypeError).
        HandoffDeclarationError: Its name or description can't be used (a ValueError).
    """
    if not isinstance(given, Handoff):
        raise NotAHandoffError(type(given).__name__)
    check_texts(given.name, given.description)
    return given


def check_texts(name: str, description: str) -> None:
    """Check the name and the description of a handoff.

    Raises:
        HandoffDeclarationError: One of them can't be used (a ValueError).
    """
    if not NAME.match(name) or keyword.iskeyword(name):
        raise HandoffDeclarationError(
            repr(name[:80]),
            "its name may have a letter or '_', then up to 63 letters a-z, digits and '_', and is no Python keyword",
        )
    if len(description) > MAX_DESCRIPTION:
        raise HandoffDeclarationError(
            name,
            f"its description has {len(description):,} characters: at most {MAX_DESCRIPTION:,} are allowed",
        )
