"""The turn loop: what follows from a task and from what members say; its thread, state and strategies."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Protocol,
    TypeAlias,
    TypeVar,
    overload,
    runtime_checkable,
)

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

from callboard.agents.base import ChatAgent, Said, Team
from callboard.conditions.base import TerminationCondition
from callboard.core.state import Log
from callboard.memory.contexts import Conversation
from callboard.memory.llm_messages import LLMMessage
from callboard.messages.chat import BaseAgentEvent, BaseChatMessage
from callboard.messages.events import (
    AnyMessage,
    MessageFactory,
    ModelClientStreamingChunkEvent,
    SelectSpeakerEvent,
)
from callboard.runtime.errors import EventTooLargeError
from callboard.runtime.steps import Tape

from .budget import RunBudget
from .errors import TeamDeclarationError

if TYPE_CHECKING:
    from callboard.core.protocol import AgentRuntime


Participant: TypeAlias = ChatAgent | Team


@dataclass(frozen=True, slots=True)
class Member:
    """A participant, as strategies see it.

    Attributes:
        name: Its name in the team.
        description: What it can do.
    """

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class Choice:
    """The decision of a strategy; from the turn loop: what follows from what was said.

    Attributes:
        speakers: Who speaks; several speak at the same time, and the next choice is made when all of them have spoken. From
            the turn loop: whose turns begin now, with the numbers in its state.
        said: What the manager itself says first: every member hears chat messages; events are only shown.
        resets: Members who forget everything first.
        stop: Why the run ends now; None: it does not. Then no member speaks.
    """

    speakers: Sequence[str] = ()
    said: Sequence[Said] = ()
    resets: Sequence[str] = ()
    stop: str | None = None


@dataclass(frozen=True, slots=True)
class Floor:
    """The conversation as a strategy sees it when it chooses.

    Attributes:
        team: Name of the team's manager, the source of what it says.
        members: Everybody, in the order in which the team was given them.
        thread: All that was said and happened, oldest first. Reading its end costs nothing; walking through it does.
        new: What was said and happened since the last choice, in earlier runs as well: the end of `thread`.
        show: Lets readers of the run see an event at once, such as a piece of a model's text.
        new_by: Name of the member who said it, for each of `new`; "": it is part of a task.
    """

    team: str
    members: Sequence[Member]
    thread: Sequence[Said]
    new: Sequence[Said]
    show: Callable[[BaseAgentEvent], Awaitable[None]]
    new_by: Sequence[str] = ()

    @property
    def names(self) -> list[str]:
        """The names of the members, in their order."""
        return [member.name for member in self.members]

    @property
    def answers(self) -> dict[str, BaseChatMessage]:
        """The last message of each member who has spoken since the last choice, by name."""
        said = zip(self.new_by, self.new, strict=True)
        return {by: message for by, message in said if by and isinstance(message, BaseChatMessage)}

    @property
    def task(self) -> list[BaseChatMessage]:
        """The messages from outside since the last choice: a new task; nothing: the run goes on with the last one."""
        said = zip(self.new_by, self.new, strict=True)
        return [message for by, message in said if not by and isinstance(message, BaseChatMessage)]


class SpeakerSelection(ABC):
    """A strategy: chooses who speaks next. Each conversation has one of its own.

    Derive from it, and from `BaseGroupChat` a team that makes one; see `RoundRobinSelection`, which is the shortest.
    """

    @abstractmethod
    async def select(self, floor: Floor) -> Choice:
        """Who speaks next. Called when a run begins, and whenever everybody who was asked has spoken.

        On the bus it may run again when a process dies: model calls through a `RecordedChatCompletionClient` are not
        paid again then, and what it keeps in itself goes back to what the last `save_state` returned.
        """
        ...

    async def after_round(self, floor: Floor) -> str | None:
        """Take note of a round. Called when everybody who was asked has spoken, before the termination condition is.

        Args:
            floor: As `select` will see it.

        Returns:
            Why the run ends now, whatever the termination condition says; None, as here: it does not.
        """
        return None

    async def check(self, messages: Sequence[BaseChatMessage] | None, floor: Floor) -> None:  # noqa: B027
        """Refuse a task that can't be carried out, before anything of it is in the thread. Here: none.

        Args:
            messages: The task; None: go on.
            floor: Its thread is without the task.

        Raises:
            ValueError: It can't be carried out.
        """

    async def reset(self) -> None:  # noqa: B027
        """Be as in the beginning."""

    async def save_state(self) -> Mapping[str, Any]:
        """Its memory from one choice to the next, as small plain data; what grows goes to `keep_context_in`."""
        return {}

    async def load_state(self, state: Mapping[str, Any]) -> None:  # noqa: B027
        """Take over what `save_state` returned."""

    def keep_context_in(self, messages: Conversation) -> None:  # noqa: B027
        """Keep the messages of a model context in this list; called once, before anything else. Here: there is none."""


T = TypeVar("T")


async def called(function: Callable[[T], Any], given: T) -> Any:
    """The result of a function, awaited where that is needed."""
    result = function(given)
    return await result if inspect.isawaitable(result) else result


class RoundRobinSelection(SpeakerSelection):
    """Everybody in the order in which the team was given them, again and again, also from one run to the next."""

    def __init__(self) -> None:
        self._next = 0

    async def select(self, floor: Floor) -> Choice:
        """The next one."""
        speaker = floor.members[self._next % len(floor.members)].name
        self._next = (self._next + 1) % len(floor.members)
        return Choice([speaker])

    async def reset(self) -> None:
        """The first one is next."""
        self._next = 0

    async def save_state(self) -> Mapping[str, Any]:
        """Whose turn it is."""
        return {"next_speaker_index": self._next}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned."""
        self._next = int(state["next_speaker_index"])


def _without_null(message: Said) -> dict[str, Any]:
    # Nearly every message says that it used no model. An item with a `null` in it is read again before it is written, to see
    # whether its field takes that back: all of it, with every turn.
    data = message.dump()
    if data.get("models_usage", data) is None:
        data = {**data}  # a `dump` of the user's own may keep what it returns
        del data["models_usage"]
    return data


# What was said, and the state of a conversation


class Entry(BaseModel):
    """A message of the thread.

    Attributes:
        message: The message or event.
        by: Name of the member who said it; "": it came from outside, or from the manager.
        is_said: Whether the other members hear it; else it only happened on the way.
    """

    model_config = ConfigDict(frozen=True)

    message: Annotated[AnyMessage, PlainSerializer(_without_null)]
    by: str = ""
    is_said: bool = False


class Thread(Sequence[Said]):
    """The messages of a thread, as those see it who choose a speaker. It costs nothing, however long the thread is.

    Args:
        entries: Where they are kept.
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Log[Entry]) -> None:
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> Said: ...

    @overload
    def __getitem__(self, index: slice) -> list[Said]: ...

    def __getitem__(self, index: int | slice) -> Said | list[Said]:
        if isinstance(index, slice):
            return [entry.message for entry in self._entries[index]]
        return self._entries[index].message

    def __iter__(self) -> Iterator[Said]:
        return (entry.message for entry in self._entries)


def heard_by(member: str, entries: Sequence[Entry]) -> list[BaseChatMessage]:
    """Those of these that a member hears: of others, and from outside."""
    return [
        entry.message
        for entry in entries
        if entry.is_said and entry.by != member and isinstance(entry.message, BaseChatMessage)
    ]


def is_nothing(value: object) -> bool:
    """Whether a field is None, and so is left out of what is stored.

    A state that says `null` somewhere is read again before each commit, to see whether the field takes that back: with every
    turn, and all of it.
    """
    return value is None


class Speaking(BaseModel):
    """A member who was asked to speak and has not spoken.

    Attributes:
        turn: Number of the turn.
        heard: How much of the thread that member has heard with it.
    """

    model_config = ConfigDict(frozen=True)

    turn: int
    heard: int


class ConversationState(BaseModel):
    """Memory of the turn loop of a team, of one conversation.

    Attributes:
        turns: How many rounds there were since the run began, or since the last one that was stopped.
        last_turn: The highest number that a turn has had; it never goes back.
        speaking: Who was asked and has not spoken, by name.
        heard: How much of the thread each member has heard.
        round_start: Where in the thread the round under way begins.
        selection: What the strategy remembers.
        termination: What the termination condition remembers; None: nothing yet.
        thread: All that was said and happened.
        context: Model context of the strategy, for one that has one.
    """

    turns: int = 0
    last_turn: int = 0
    speaking: dict[str, Speaking] = Field(default_factory=dict)
    heard: dict[str, int] = Field(default_factory=dict)
    round_start: int = 0
    selection: dict[str, Any] = Field(default_factory=dict)
    termination: dict[str, Any] | None = Field(default=None, exclude_if=is_nothing)
    thread: Log[Entry] = Log()
    context: Log[LLMMessage] = Log()


# The loop

SAID_BEFORE: Final = "said_before"
"""In the metadata of a message of a task: it was said somewhere else before, so no termination condition looks at it."""
ALREADY_TERMINATED: Final = "The group chat has already terminated."
MAX_TURNS: Final = "Maximum number of turns {count} reached."

Show = Callable[[BaseAgentEvent], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class TeamPlan:
    """A team as the turn loop knows it; the same for all conversations.

    Attributes:
        name: Of the team's manager: the source of what it says.
        members: Who takes part.
        max_turns: How many rounds a run has at most; None: no limit.
        emit_team_events: Whether a SelectSpeakerEvent is shown before each turn.
        factory: The types of messages that may be said.
        budget: The most that a run may use, unless another budget is given to it.
    """

    name: str
    members: Sequence[Member]
    max_turns: int | None
    emit_team_events: bool
    factory: MessageFactory
    budget: RunBudget | None = None


@runtime_checkable
class LedTeam(Protocol):
    """A team that a manager on the bus can lead: its members become actors of their own."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def description(self) -> str:
        """Its description, for those that choose who speaks."""
        ...

    @property
    def plan(self) -> TeamPlan:
        """The team as the turn loop knows it."""
        ...

    @property
    def participants(self) -> Sequence[Participant]:
        """The members."""
        ...

    @property
    def termination_condition(self) -> TerminationCondition | None:
        """When a run ends; each conversation has a copy."""
        ...

    def new_selection(self) -> SpeakerSelection:
        """The strategy of a new conversation."""
        ...


class TurnLoop:
    """One conversation of a team, without anything that carries messages.

    AutoGen checks its termination condition only against what the last of several speakers said; here all that was said in
    the round counts.

    Args:
        plan: The team.
        state: What is remembered; it is changed by every call.
        selection: Chooses who speaks; of this conversation alone.
        termination: Says when to stop; of this conversation alone.

    Attributes:
        show: Lets readers of the run under way see an event at once.
        choosing: Is in force while the strategy chooses.
        round_ended: Told who has spoken, when everybody who was asked has, and before it is chosen who is next.
    """

    def __init__(
        self,
        plan: TeamPlan,
        state: ConversationState,
        selection: SpeakerSelection,
        termination: TerminationCondition | None,
    ) -> None:
        self.plan = plan
        self.state = state
        self.selection = selection
        self.termination = termination
        self.show: Show = _to_nobody
        self.choosing: Callable[[], AbstractContextManager[object]] = nullcontext
        self.round_ended: Callable[[Sequence[str]], Awaitable[None]] = _unmarked
        self._names = frozenset(member.name for member in plan.members)

    async def check(self, task: Sequence[BaseChatMessage] | None) -> None:
        """Refuses a task that can't be carried out.

        Raises:
            ValueError: It can't; the text says why.
        """
        for message in task or ():
            self._check_type(message)
        if not self._has_terminated():
            await self.selection.check(task, self._floor())

    async def start(self, task: Sequence[BaseChatMessage] | None) -> Choice:
        """A run begins, with a task that was checked.

        Args:
            task: What to do; None: go on.
        """
        if self._has_terminated():
            return Choice(stop=ALREADY_TERMINATED)
        await self._clear_up()
        if task:
            self._append([Entry(message=message, is_said=True) for message in task])
            stop = await self._reason_to_stop([one for one in task if SAID_BEFORE not in one.metadata])
            if stop is not None:
                return await self._stopped(stop)
        return await self._next()

    async def hear(
        self, member: str, turn: int, messages: Sequence[Said], is_team: bool = False
    ) -> Choice | None:
        """A member has spoken.

        Args:
            member: Its name.
            turn: The turn that it was asked for.
            messages: What happened on the way, and at last what it says; of a team, everything that was said in it.
            is_team: Whether the member is a team: then the others hear every chat message of it, else the last message.

        Returns:
            What follows: nothing yet while others are still speaking. None: the turn is over, and nothing waits for this.
        """
        state = self.state
        speaking = state.speaking.get(member)
        # The answer of a turn that was cancelled races with the next `Speak` to the same member. Heard now, it would end
        # that turn with the old words, and the new answer would come to nothing.
        # guard: a turn is heard once
        if speaking is None or speaking.turn != turn:
            return None
        self._append(self._entries(member, messages, is_team))
        state.heard[member] = speaking.heard
        del state.speaking[member]
        if state.speaking:
            return Choice()
        floor = self._floor()
        stop = await self.selection.after_round(floor)
        if stop is None:
            stop = await self._reason_to_stop(floor.new)
        if stop is None:
            state.turns += 1
            stop = self._turn_limit()
        following = None if stop is None else await self._stopped(stop)
        await self.round_ended([by for by in dict.fromkeys(floor.new_by) if by])
        return following or await self._next(floor)

    async def choose(self) -> Choice:
        """Choose anew who is next, where the strategy could not."""
        return await self._next()

    async def reset(self) -> None:
        """The conversation is as in the beginning, but for the numbers of its turns."""
        fresh = ConversationState(last_turn=self.state.last_turn)
        self.state.thread.clear()
        self.state.context.clear()
        for field in ("turns", "speaking", "heard", "round_start"):
            setattr(self.state, field, getattr(fresh, field))
        if self.termination is not None:
            await self.termination.reset()
        await self.selection.reset()

    # Steps

    async def _clear_up(self) -> None:
        """The run before was cancelled, or has failed: AutoGen waits for ever for those who were asked in it."""
        state = self.state
        if not state.speaking and not state.turns:
            return
        state.speaking.clear()
        state.turns = 0
        if self.termination is not None:
            await self.termination.reset()

    def _has_terminated(self) -> bool:
        return self.termination is not None and self.termination.terminated

    async def _next(self, floor: Floor | None = None) -> Choice:
        with self.choosing():
            choice = await self.selection.select(floor or self._floor())
        for name in choice.resets:  # AutoGen's members, too, forget what they have not heard
            self.state.heard[name] = len(self.state.thread)
        self._append([Entry(message=message, is_said=True) for message in choice.said if _is_said(message)])
        self.state.round_start = len(self.state.thread)
        if choice.stop is not None:
            await self._stopped(choice.stop)
            return Choice((), choice.said, choice.resets, choice.stop)
        speakers, said = self._checked(choice), [*choice.said]
        for name in speakers:
            self.state.last_turn += 1
            self.state.speaking[name] = Speaking(turn=self.state.last_turn, heard=len(self.state.thread))
        if self.plan.emit_team_events:
            said.append(SelectSpeakerEvent(content=list(speakers), source=self.plan.name))
        return Choice(speakers, said, choice.resets)

    def _checked(self, choice: Choice) -> Sequence[str]:
        unknown = [name for name in choice.speakers if name not in self._names]
        if unknown:
            raise TeamDeclarationError(f"Speaker {unknown[0]} not found in participant names.")
        if not choice.speakers:
            raise TeamDeclarationError(
                f"{type(self.selection).__name__} chose nobody, and gave no reason to stop."
            )
        return list(dict.fromkeys(choice.speakers))

    def unheard(self, member: str, speaking: Speaking) -> list[BaseChatMessage]:
        """The messages that a member hears with a turn: all since its last one."""
        return heard_by(member, self.state.thread[self.state.heard.get(member, 0) : speaking.heard])

    async def _reason_to_stop(self, new: Sequence[Said]) -> str | None:
        stop = None if self.termination is None else await self.termination(new)
        return None if stop is None else stop.content

    def _turn_limit(self) -> str | None:
        most = self.plan.max_turns
        return None if most is None or self.state.turns < most else MAX_TURNS.format(count=most)

    async def _stopped(self, reason: str) -> Choice:
        if self.termination is not None:
            await self.termination.reset()
        self.state.turns = 0
        return Choice(stop=reason)

    def _entries(self, member: str, messages: Sequence[Said], is_team: bool) -> list[Entry]:
        last = len(messages) - 1
        entries = []
        for number, message in enumerate(messages):
            self._check_type(message)
            is_said = _is_said(message) and (is_team or number == last)
            entries.append(Entry(message=message, by=member, is_said=is_said))
        return entries

    def _append(self, entries: Sequence[Entry]) -> None:
        self.state.thread.extend(entries)

    def _round(self) -> list[Entry]:
        return self.state.thread[self.state.round_start :]

    def _floor(self) -> Floor:
        plan, new = self.plan, self._round()
        return Floor(
            team=plan.name,
            members=plan.members,
            thread=Thread(self.state.thread),
            new=[entry.message for entry in new],
            show=self.show,
            new_by=[entry.by for entry in new],
        )

    def _check_type(self, message: Said) -> None:
        if not self.plan.factory.is_registered(type(message)):
            raise TeamDeclarationError(
                f"Message type {type(message).__name__} is not registered: name it in `custom_message_types`."
            )


async def _to_nobody(event: BaseAgentEvent) -> None:
    """Without readers."""


async def _unmarked(speakers: Sequence[str]) -> None:
    """Where nothing is marked."""


def _is_said(message: Said) -> bool:
    return isinstance(message, BaseChatMessage)


def is_kept(message: Said) -> bool:
    """Whether something that is shown is part of a result: pieces of a streamed text are not."""
    return not isinstance(message, ModelClientStreamingChunkEvent)


# Takes: what is recorded of a run, to be replayed

TAKES: Final = "/takes"


def takes_of(stream: str) -> str:
    """The name of the stream with what models answered and tools returned in a run that is recorded.

    Args:
        stream: That of the run.
    """
    return f"{stream}{TAKES}"


def is_of_takes(stream: str) -> bool:
    """Whether a stream holds the takes of a run: those of runs end otherwise, see `stream_of` in protocol.py."""
    return stream.endswith(TAKES)


def tape_for(record: bool) -> Tape | None:
    """A tape for one handler, if the run is recorded."""
    return Tape() if record else None


async def write_takes(runtime: AgentRuntime, stream: str, tape: Tape | None) -> None:
    """Hand what was noted to the commit. What is too large for one event leaves a gap, which an export tells of."""
    for take in () if tape is None else tape.takes:
        try:
            await runtime.write_run(takes_of(stream), [take])
        except EventTooLargeError:
            await runtime.write_run(takes_of(stream), [take.model_copy(update={"answer": None})])


# The steps, for tests

STEPS: Final = (
    "run asked for",  # the manager has the task, and nothing is chosen
    "run begins",  # who speaks first is chosen, and nothing is committed
    "member asked",  # a member has its turn, and nothing has run
    "member answers",  # its agent has spoken, and nothing is committed
    "answer heard",  # the manager has the answer, and nothing is checked or chosen
    "turn ends",  # who speaks next is chosen, and nothing is committed
)
"""The steps of a turn, in their order. Beside these, models and tools are called between "member asked" and "answers"."""

FORK_STEPS: Final = (
    "fork cut",  # the manager has read what the conversation was, and nothing is sent
    "fork born",  # the new conversation's manager has its part, and nothing is committed
)
"""The steps of a fork."""

ORDER_STEPS: Final = (
    "order taken",  # what it changes is staged, and nothing is committed
    "members to hear",  # it is committed, and no member has heard of it
    "members heard",  # members have heard of it, and that is not committed
)
"""The steps of an order to a run that concerns who is speaking."""

OnStep = Callable[[str], Awaitable[None]]

_watching: list[OnStep] = []


def watch_steps(call: OnStep) -> None:
    """Await a function at each step of this process, with the step's name; for tests."""
    _watching.append(call)


async def reached(step: str) -> None:
    """A step is reached."""
    for call in _watching:
        await call(step)
