"""What dispatchers have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from callboard.agents.handoff import Handoff
from callboard.memory.llm_messages import LLMMessage


class AbstractDispatcher(ABC):
    """To whom agents may hand over. Several agents of one process may share a dispatcher.

    After the proposal of AutoGen #4739, whose names it keeps.
    """

    @property
    @abstractmethod
    def handoffs(self) -> list[Handoff]:
        """All handoffs, in the order in which they were added. In the proposal's `Dispatcher` it is a method."""
        ...

    def offered(self, agent: str, messages: Sequence[LLMMessage] = ()) -> list[Handoff]:
        """The handoffs that an agent's model is shown now; here: all but those to itself.

        Args:
            agent: The agent's name.
            messages: What its model sees of the conversation.
        """
        return [handoff for handoff in self.handoffs if handoff.target != agent]

    def join(self, members: Sequence[str]) -> None:  # noqa: B027 - most have nothing to learn
        """Learn who is in the team of an agent that uses this dispatcher; here: nothing.

        Raises:
            TargetRefusedError: A handoff goes to somebody else (a ValueError).
        """


class AbstractDynamicDispatcher(AbstractDispatcher):
    """Handoffs that come and go. In the proposal it is no dispatcher: it has no `handoffs`."""

    @abstractmethod
    def create_handoff(
        self, name: str, target: str, description: str, message: str, *, caller: str | None = None
    ) -> Handoff:
        """Create and add a handoff, enabled.

        Args:
            name: Name of its tool; "": made of the target.
            target: Who goes on.
            description: When to do it, for the model; "": made of the target.
            message: What is said to the target; "": that it takes over.
            caller: The agent whose model asks for it; None: your program.

        Raises:
            DispatchError: It is refused.
        """
        ...

    @abstractmethod
    def add_handoff(self, handoff: Handoff, enabled: bool = True) -> None:
        """Add a handoff.

        Raises:
            DispatchError: It is refused.
        """
        ...

    @abstractmethod
    def delete_handoff(self, handoff_name: str) -> None:
        """Delete a handoff.

        Raises:
            UnknownHandoffError: There is none of this name (a KeyError and a ValueError).
        """
        ...

    @abstractmethod
    def delete_all_handoffs(self) -> None:
        """Delete all handoffs, and what was known of them."""
        ...

    @abstractmethod
    def enable_handoff(self, handoff_name: str) -> None:
        """Show a handoff to models again.

        Raises:
            UnknownHandoffError: There is none of this name (a KeyError and a ValueError).
        """
        ...

    @abstractmethod
    def disable_handoff(self, handoff_name: str) -> None:
        """Show a handoff to models no more.

        Raises:
            UnknownHandoffError: There is none of this name (a KeyError and a ValueError).
        """
        ...

    @property
    @abstractmethod
    def enabled_handoffs(self) -> list[Handoff]:
        """The enabled handoffs, in the order in which they were added."""
        ...

    def offered(self, agent: str, messages: Sequence[LLMMessage] = ()) -> list[Handoff]:
        """The handoffs that an agent's model is shown now; here: the enabled ones, but for those to itself."""
        return [handoff for handoff in self.enabled_handoffs if handoff.target != agent]

    # Told by agents that use it

    def begin_turn(self) -> list[Handoff]:
        """An agent begins a turn.

        Returns:
            Handoffs whose lifetime has ended, and which are deleted. Here: none.
        """
        return []

    def handed_over(self, handoff_name: str) -> bool:
        """An agent hands over.

        Returns:
            Whether the handoff was for this one time, and is deleted. Here: False.
        """
        return False

    def reset(self) -> None:
        """The conversation begins anew; here: nothing."""

    async def save_state(self) -> Mapping[str, Any]:
        """What there is beyond the beginning, as plain data; here: nothing."""
        return {}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned; here: nothing."""
