"""The turn loop: what follows from a task, and from what members say. All teams have this one, in one process or in many."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final

from callboard.agents.task import Said
from callboard.conditions.base import TerminationCondition
from callboard.messages.base import BaseAgentEvent, BaseChatMessage
from callboard.messages.events import ModelClientStreamingChunkEvent, SelectSpeakerEvent
from callboard.messages.factory import MessageFactory

from .budget import RunBudget
from .errors import TeamDeclarationError
from .selection import Choice, Floor, Member, SpeakerSelection
from .state import ConversationState, Speaking
from .thread import Entry, Thread, heard_by

ALREADY_TERMINATED: Final = "The group chat has already terminated."
MAX_TURNS: Final = "Maximum number of turns {count} reached."

Show = Callable[[BaseAgentEvent], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Ask:
    """A member is to speak.

    Attributes:
        member: Its name.
        turn: Number of the turn; the answer names it.
        messages: What was said since that member last spoke.
    """

    member: str
    turn: int
    messages: Sequence[BaseChatMessage]


@dataclass(frozen=True, slots=True)
class Spoken:
    """What a member has said.

    Attributes:
        member: Its name.
        turn: The turn that it was asked for.
        messages: What happened on the way, and at last what it says; of a team, everything that was said in it.
        is_team: Whether the member is a team: then the others hear every chat message of it, else the last message.
    """

    member: str
    turn: int
    messages: Sequence[Said]
    is_team: bool = False


@dataclass(frozen=True, slots=True)
class Next:
    """What follows.

    Attributes:
        said: What the manager says or lets be seen.
        resets: Members who forget everything first.
        asks: Who is to speak; nobody, when others are still speaking.
        stop: Why the run has ended; None: it has not.
    """

    said: Sequence[Said] = ()
    resets: Sequence[str] = ()
    asks: Sequence[Ask] = ()
    stop: str | None = None


@dataclass(frozen=True, slots=True)
class TeamPlan:
    """What the turn loop has to know of a team; the same for all conversations.

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

    async def start(self, task: Sequence[BaseChatMessage] | None) -> Next:
        """A run begins, with a task that was checked.

        Args:
            task: What to do; None: go on.
        """
        if self._has_terminated():
            return Next(stop=ALREADY_TERMINATED)
        await self._clear_up()
        if task:
            self._append([Entry(message=message, is_said=True) for message in task])
            stop = await self._reason_to_stop(task)
            if stop is not None:
                return await self._stopped(stop)
        return await self._next()

    async def hear(self, spoken: Spoken) -> Next | None:
        """A member has spoken.

        Returns:
            None: nobody waits for this, because it belongs to a turn that is over.
        """
        state = self.state
        speaking = state.speaking.get(spoken.member)
        # guard: a turn is heard once
        if speaking is None or speaking.turn != spoken.turn:
            return None
        self._append(self._entries(spoken))
        state.heard[spoken.member] = speaking.heard
        del state.speaking[spoken.member]
        if state.speaking:
            return Next()
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

    async def choose(self) -> Next:
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

    async def _next(self, floor: Floor | None = None) -> Next:
        with self.choosing():
            choice = await self.selection.select(floor or self._floor())
        for name in choice.resets:  # AutoGen's members, too, forget what they have not heard
            self.state.heard[name] = len(self.state.thread)
        self._append([Entry(message=message, is_said=True) for message in choice.said if _is_said(message)])
        self.state.round_start = len(self.state.thread)
        if choice.stop is not None:
            stopped = await self._stopped(choice.stop)
            return Next(choice.said, choice.resets, stop=stopped.stop)
        asks = [self._ask(name) for name in self._checked(choice)]
        said = [*choice.said]
        if self.plan.emit_team_events:
            said.append(SelectSpeakerEvent(content=[ask.member for ask in asks], source=self.plan.name))
        return Next(said, choice.resets, asks)

    def _checked(self, choice: Choice) -> Sequence[str]:
        unknown = [name for name in choice.speakers if name not in self._names]
        if unknown:
            raise TeamDeclarationError(f"Speaker {unknown[0]} not found in participant names.")
        if not choice.speakers:
            raise TeamDeclarationError(
                f"{type(self.selection).__name__} chose nobody, and gave no reason to stop."
            )
        return list(dict.fromkeys(choice.speakers))

    def _ask(self, member: str) -> Ask:
        state = self.state
        state.last_turn += 1
        heard = len(state.thread)
        state.speaking[member] = Speaking(turn=state.last_turn, heard=heard)
        unheard = state.thread[state.heard.get(member, 0) :]
        return Ask(member, state.last_turn, heard_by(member, unheard))

    async def _reason_to_stop(self, new: Sequence[Said]) -> str | None:
        stop = None if self.termination is None else await self.termination(new)
        return None if stop is None else stop.content

    def _turn_limit(self) -> str | None:
        most = self.plan.max_turns
        return None if most is None or self.state.turns < most else MAX_TURNS.format(count=most)

    async def _stopped(self, reason: str) -> Next:
        if self.termination is not None:
            await self.termination.reset()
        self.state.turns = 0
        return Next(stop=reason)

    def _entries(self, spoken: Spoken) -> list[Entry]:
        last = len(spoken.messages) - 1
        entries = []
        for number, message in enumerate(spoken.messages):
            self._check_type(message)
            is_said = _is_said(message) and (spoken.is_team or number == last)
            entries.append(Entry(message=message, by=spoken.member, is_said=is_said))
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
    """Where nobody reads."""


async def _unmarked(speakers: Sequence[str]) -> None:
    """Where nothing is marked."""


def _is_said(message: Said) -> bool:
    return isinstance(message, BaseChatMessage)


def is_kept(message: Said) -> bool:
    """Whether something that is shown is part of a result: pieces of a streamed text are not."""
    return not isinstance(message, ModelClientStreamingChunkEvent)
