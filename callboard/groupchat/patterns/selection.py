"""How a pattern chooses a speaker, as a strategy of the turn loop on the bus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Final

from callboard.groupchat.agent import Agent
from callboard.groupchat.auto import Selector
from callboard.groupchat.context_variables import ContextVariables
from callboard.groupchat.errors import MessageError
from callboard.groupchat.message import ConversationMessage
from callboard.groupchat.notes import for_members, is_for, is_note
from callboard.groupchat.selection import ThreadSelection
from callboard.groupchat.sharing import changes, snapshot, take_over
from callboard.messages.base import BaseChatMessage
from callboard.teams.selection import Choice, Floor

from .chat import PatternChat

BEGUN: Final = "has_begun"
BASE: Final = "base_variables"


class PatternSelection(ThreadSelection):
    """Chooses by the rule of patterns, in a conversation on the bus.

    The context variables are those of the declaration, or of a state that was loaded, changed as the messages of the thread
    say. What a function of a target has changed, and what it tells members, the manager says.

    Args:
        chat: The group chat, of this conversation alone.
        selector: Its manager.
    """

    def __init__(self, chat: PatternChat, selector: Selector) -> None:
        super().__init__(chat, selector)
        self._pattern = chat
        self._declared = deepcopy(chat.context_variables)
        self._base: dict[str, Any] | None = None
        self._before: dict[str, str] = {}

    def hear(self, said: BaseChatMessage) -> Agent | None:
        """A message becomes one of the group chat, and what it changes is changed."""
        # guard: a manager knows what the messages of its thread have changed
        take_over(self._pattern.context_variables, said.metadata)
        return None if is_note(said) else super().hear(said)

    async def last_speaker(self, floor: Floor) -> Agent:
        """Who spoke last; the variables are as the thread says."""
        speaker = await super().last_speaker(floor)
        self._before = snapshot(self._pattern.context_variables)
        return speaker

    async def select(self, floor: Floor) -> Choice:
        """Who is next; the manager says what a function that decides has changed and tells."""
        choice = await super().select(floor)
        changed = changes(self._before, self._pattern.context_variables)
        notes = self._pattern.take_notes()
        if not notes and not changed:
            return choice
        said = [
            ConversationMessage(data=note.message, source=floor.team, metadata=for_members([note.to]))
            for note in notes
        ]
        if not said:
            said = [ConversationMessage(data={"content": ""}, source=floor.team, metadata=for_members([]))]
        said[0].metadata.update(changed)
        return Choice(choice.speakers, said=[*choice.said, *said], stop=choice.stop)

    async def check(self, messages: Sequence[BaseChatMessage] | None, floor: Floor) -> None:
        """Refuses a task that can't be read, or whose metadata can't.

        Raises:
            MessageError: It is one (a ValueError).
        """
        await super().check(messages, floor)
        for message in messages or ():
            try:
                take_over(ContextVariables(), message.metadata)
                is_for(floor.team, message)
            except (TypeError, ValueError, RecursionError) as error:
                raise MessageError(message.source, f"its metadata can't be read: {error}") from error

    async def reset(self) -> None:
        """Nothing was said."""
        await super().reset()
        self._base = None
        self._begin(False)

    async def save_state(self) -> Mapping[str, Any]:
        """Whether it has begun, and the variables that were loaded."""
        return {BEGUN: self._pattern.has_begun, **({} if self._base is None else {BASE: self._base})}

    async def load_state(self, state: Mapping[str, object]) -> None:
        """Take over what `save_state` returned; the thread is another one."""
        await self.reset()
        base = state.get(BASE)
        self._base = dict(base) if isinstance(base, Mapping) else None
        self._begin(bool(state.get(BEGUN)))

    def _begin(self, has_begun: bool) -> None:
        variables = self._declared if self._base is None else self._base
        self._pattern.has_begun = has_begun
        self._pattern.context_variables.clear()
        self._pattern.context_variables.update(deepcopy(dict(variables)))
