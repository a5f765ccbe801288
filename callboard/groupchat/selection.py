"""A group chat as a team: the choice of a speaker as a strategy of the turn loop, and the end of a run."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from callboard.agents.base import ChatAgent
from callboard.conditions.base import Messages, TerminationCondition
from callboard.conditions.triggers import LatchedTermination
from callboard.messages.chat import BaseChatMessage, StopMessage
from callboard.messages.events import SelectorEvent
from callboard.models.base import ChatCompletionClient
from callboard.models.types import CreateResult
from callboard.teams.group_chat import BaseGroupChat
from callboard.teams.loop import Choice, Floor, Participant, SpeakerSelection

from .errors import GroupChatDeclarationError, NoEligibleSpeakerError
from .group_chat import GroupChat, Selector
from .membership import GroupPeer, forget, kept_after
from .messages import Agent, ConversationMessage, Message, as_message, unsent


class _Function(BaseModel):
    name: str
    arguments: str = ""


class _ToolCall(BaseModel):
    function: _Function
    type: str = "function"


class _Response(BaseModel):
    content: Any
    tool_call_id: str = ""


class _Shape(BaseModel):
    content: Any
    name: str = ""
    role: str = ""
    tool_calls: list[_ToolCall] = []
    tool_responses: list[_Response] = []
    function_call: _Function | None = None


def check_shape(message: BaseChatMessage) -> None:
    """Refuse a message that members and managers could not read: in a conversation it would end every run to come.

    Raises:
        GroupChatDeclarationError: It has no content, or a part of it is of another kind (a ValueError).
    """
    if not isinstance(message, ConversationMessage):
        return
    # What is empty is not there.
    given = {key: value for key, value in message.data.items() if value or key == "content"}
    try:
        _Shape.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise GroupChatDeclarationError(f"{unsent(message.source)} {place}: {first['msg']}") from None


UNSELECTED: Final = "No next speaker selected"


class GroupChatSelection(SpeakerSelection):
    """Choice of speakers by the rules of a group chat. The words of the model that chooses are shown, with what it used.

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
            return Choice(said=selector.events, stop=UNSELECTED)
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
        """Refuse a task that no member could read.

        Raises:
            GroupChatDeclarationError: It is one (a ValueError).
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


OVER: Final = "Termination message condition on the GroupChatManager '{name}' met"
LAST_ROUND: Final = "Maximum rounds ({count}) reached"


class GroupChatTermination(LatchedTermination):
    """End of a run: a termination message, the last round, or a member without an answer.

    Args:
        is_over: Whether a message ends the chat.
        manager: Name of the manager.
        max_round: How many messages a run has.
        rounds: How many it has had already, for one that is resumed.
    """

    def __init__(
        self, is_over: Callable[[Message], bool], manager: str, max_round: int, *, rounds: int = 0
    ) -> None:
        super().__init__()
        self._is_over = is_over
        self._manager = manager
        self._most = max_round
        self._rounds = rounds

    @property
    def rounds(self) -> int:
        """How many messages the run has had."""
        return self._rounds

    def __deepcopy__(self, memo: dict[int, Any]) -> GroupChatTermination:
        """For another conversation; what it asks stays the same."""
        return GroupChatTermination(self._is_over, self._manager, self._most, rounds=self._rounds)

    async def heard(self, message: Message, source: str) -> None:
        """A message was said; here: nothing follows."""

    async def reason(self, messages: Messages) -> str | None:
        """Why it ends."""
        for said in messages:
            if isinstance(said, StopMessage):
                return said.content
            if isinstance(said, BaseChatMessage) and (reason := await self._reason(said)):
                return reason
        return None

    async def _reason(self, said: BaseChatMessage) -> str | None:
        message = as_message(said)
        self._rounds += 1
        await self.heard(message, said.source)
        if self._is_over(message):
            return OVER.format(name=self._manager)
        return LAST_ROUND.format(count=self._most) if self._rounds >= self._most else None

    async def reset(self) -> None:
        """A run of its own begins."""
        await super().reset()
        self._rounds = 0

    async def save_state(self) -> Mapping[str, Any]:
        """Its counts."""
        return {**await super().save_state(), "rounds": self._rounds}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned.

        Raises:
            ConditionStateError: It is no such state (a ValueError).
        """
        await super().load_state({"terminated": state.get("terminated")})
        self._rounds = int(state.get("rounds", 0))


class GroupChatTeam(BaseGroupChat):
    """A team whose speakers a group chat chooses; `GroupChatManager.team` makes it.

    Args:
        participants: The members.
        name: Name of the manager.
        description: What it can do.
        new_selection: Makes the strategy of a conversation.
        termination: When a run ends.
        **options: See BaseGroupChat.
    """

    def __init__(
        self,
        participants: Sequence[Participant],
        *,
        name: str,
        description: str,
        new_selection: Callable[[], SpeakerSelection],
        termination: TerminationCondition,
        **options: Any,
    ) -> None:
        super().__init__(
            participants,
            name=name,
            description=description,
            manager_name=name,
            termination_condition=termination,
            custom_message_types=[ConversationMessage, *options.pop("custom_message_types", ())],
            **options,
        )
        self._new_selection = new_selection

    def new_selection(self) -> SpeakerSelection:
        """The strategy of a new conversation."""
        return self._new_selection()
