"""How a group chat chooses a speaker, as a strategy of the turn loop."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Final

from callboard.agents.chat_agent import ChatAgent
from callboard.messages.base import BaseChatMessage
from callboard.messages.chat import StopMessage
from callboard.messages.events import SelectorEvent
from callboard.models.base import ChatCompletionClient
from callboard.models.types import CreateResult
from callboard.teams.selection import Choice, Floor, SpeakerSelection

from .agent import Agent
from .auto import Selector
from .cleared import forget, kept_after
from .errors import NoEligibleSpeakerError
from .group_chat import GroupChat
from .membership import GroupPeer
from .message import as_message
from .task_shape import check_shape

NOBODY: Final = "No next speaker selected"


class GroupChatSelection(SpeakerSelection):
    """Chooses by the rules of a group chat. What the model says that chooses is shown, with what it used.

    Args:
        chat: The group chat.
        selector: Its manager.
    """

    def __init__(self, chat: GroupChat, selector: Selector) -> None:
        self._chat = chat
        self._selector = selector

    @abstractmethod
    async def last_speaker(self, floor: Floor) -> Agent:
        """Who spoke last; the messages of the group chat are complete afterwards."""
        ...

    async def select(self, floor: Floor) -> Choice:
        """The one whom the group chat chooses."""
        last, selector = await self.last_speaker(floor), _Noting(self._selector, floor.team)
        try:
            speaker = await self._chat.a_select_speaker(last, selector)
        except NoEligibleSpeakerError:
            return Choice(said=selector.events, stop=NOBODY)
        return Choice([speaker.name], said=selector.events)


class ThreadSelection(GroupChatSelection):
    """The same for a conversation on the bus, whose messages are those of the thread."""

    def __init__(self, chat: GroupChat, selector: Selector) -> None:
        super().__init__(chat, selector)
        self._read = 0
        self._outsiders: dict[str, GroupPeer] = {}

    async def last_speaker(self, floor: Floor) -> Agent:
        """Who said the last message of the thread."""
        speaker: ChatAgent = self._named(floor.team)
        for said in floor.thread[self._read :]:
            if isinstance(said, BaseChatMessage) and not isinstance(said, StopMessage):
                speaker = self.hear(said) or speaker
        if self._read == len(floor.thread) and self._chat.messages:
            speaker = self._named(self._chat.messages[-1]["name"])
        self._read = len(floor.thread)
        return speaker

    def hear(self, said: BaseChatMessage) -> Agent | None:
        """A message becomes one of the group chat.

        Returns:
            Who said it; None: it is none of the conversation.
        """
        speaker = self._named(said.source)
        keep = kept_after(said, None) if self._chat.enable_clear_history else None
        if keep is not None:
            forget(self._chat.messages, keep)
        self._chat.append({"role": "user", **as_message(said)}, speaker)
        return speaker

    async def check(self, messages: Sequence[BaseChatMessage] | None, floor: Floor) -> None:
        """Refuses a task that nobody could read.

        Raises:
            MessageError: It is one (a ValueError).
        """
        # guard: a task that can't be read is no part of the conversation
        for message in messages or ():
            check_shape(message)

    async def reset(self) -> None:
        """Nothing was said."""
        self._chat.reset()
        self._read = 0

    async def load_state(self, state: Mapping[str, object]) -> None:
        """The thread is another one."""
        await self.reset()

    def _named(self, name: str) -> ChatAgent:
        return self._chat.agent_by_name(name) or self._outsiders.setdefault(name, GroupPeer(name))


class _Noting:
    """A manager whose model is asked; keeps what is to be shown of it."""

    def __init__(self, selector: Selector, source: str) -> None:
        self._selector = selector
        self._source = source
        self.events: list[SelectorEvent] = []

    @property
    def client(self) -> ChatCompletionClient | None:
        return self._selector.client

    def note_answer(self, result: CreateResult, model: str | None = None) -> None:
        self._selector.note_answer(result, model)
        text = result.content if isinstance(result.content, str) else ""
        self.events.append(SelectorEvent(content=text, source=self._source, models_usage=result.usage))
