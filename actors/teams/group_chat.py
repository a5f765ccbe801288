"""What all teams have in common."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from callboard.agents.errors import AgentNameError
from callboard.agents.task import Said, Task, TaskResult, task_messages
from callboard.agents.team import Team
from callboard.cancellation import CancellationToken
from callboard.conditions.base import TerminationCondition
from callboard.messages.base import BaseAgentEvent, BaseChatMessage
from callboard.messages.factory import MessageFactory
from callboard.messages.structured import StructuredMessage

from .errors import TeamBusyError, TeamDeclarationError, TeamNotRunError
from .local import LocalRun, Participant, reset_participant
from .loop import TeamPlan, TurnLoop
from .saving import dump_team, load_team
from .selection import Member, SpeakerSelection
from .state import ConversationState


class BaseGroupChat(Team):
    """A team: a manager decides who speaks next, and its members hear what the others say.

    Without a runtime the members are called in this process, and what they remember lasts as long as the objects.

    Args:
        participants: The members: agents, or teams.
        name: Its name, a Python identifier.
        description: What it can do, for a larger team.
        manager_name: The source of what its manager says.
        termination_condition: When a run ends; None: nothing but `max_turns` and the strategy ends it.
        max_turns: How many rounds a run has at most.
        custom_message_types: Types of messages of your own that members say.
        emit_team_events: Whether readers see a SelectSpeakerEvent before each turn.

    Raises:
        TeamDeclarationError: A member is missing or two have one name (a ValueError).
    """

    def __init__(
        self,
        participants: Sequence[Participant],
        *,
        name: str,
        description: str,
        manager_name: str,
        termination_condition: TerminationCondition | None = None,
        max_turns: int | None = None,
        custom_message_types: Iterable[type[BaseAgentEvent | BaseChatMessage]] | None = None,
        emit_team_events: bool = False,
    ) -> None:
        _check_members(participants, name, max_turns)
        self._name = name
        self._description = description
        self._participants = {participant.name: participant for participant in participants}
        self._termination = termination_condition
        members = [Member(participant.name, participant.description) for participant in participants]
        factory = _factory(participants, custom_message_types or ())
        self.plan = TeamPlan(manager_name, members, max_turns, emit_team_events, factory)
        self._gate = asyncio.Event()
        self._gate.set()
        self._loop: TurnLoop | None = None
        self._is_running = False

    @abstractmethod
    def new_selection(self) -> SpeakerSelection:
        """The strategy of a new conversation."""
        ...

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def description(self) -> str:
        """What it can do."""
        return self._description

    @property
    def participants(self) -> Sequence[Participant]:
        """The members, in their order."""
        return list(self._participants.values())

    # Runs

    async def run(
        self,
        *,
        task: Task = None,
        cancellation_token: CancellationToken | None = None,
        output_task_messages: bool = True,
    ) -> TaskResult:
        """Carry out a task; see `run_stream`."""
        result: TaskResult | None = None
        stream = self.run_stream(
            task=task, cancellation_token=cancellation_token, output_task_messages=output_task_messages
        )
        async with aclosing(stream) as items:
            async for item in items:
                if isinstance(item, TaskResult):
                    result = item
        if result is None:
            raise TeamNotRunError(self.name, "ended without a result")
        return result

    async def run_stream(
        self,
        *,
        task: Task = None,
        cancellation_token: CancellationToken | None = None,
        output_task_messages: bool = True,
    ) -> AsyncGenerator[Said | TaskResult, None]:
        """Carry out a task; yields what is said as it is said, and at last the TaskResult.

        Members remember what was said in earlier runs; without a task they go on with it.

        Args:
            task: What to do.
            cancellation_token: Ends the run at once.
            output_task_messages: Whether the task is in the result, too.

        Raises:
            TeamBusyError: A run is under way (a ValueError).
            TaskError: The task is none (a ValueError).
            TeamRunError: A member failed (a RuntimeError).
            asyncio.CancelledError: The token was cancelled.
        """
        messages = task_messages(task)
        if self._is_running:
            raise TeamBusyError(self.name)
        self._is_running = True
        try:
            run = LocalRun(
                self._turn_loop(), self._participants, self._gate, cancellation_token or CancellationToken()
            )
            async with aclosing(run.stream(messages or None, output_task_messages)) as items:
                async for item in items:
                    yield item
        finally:
            self._is_running = False

    async def reset(self) -> None:
        """Be as in the beginning, with all members.

        Raises:
            TeamNotRunError: A run is under way (a RuntimeError).
        """
        self._check_is_idle("can't be reset")
        await self._turn_loop().reset()
        for participant in self._participants.values():
            await reset_participant(participant, CancellationToken())

    async def pause(self) -> None:
        """Let nobody begin to speak until `resume`; who is speaking goes on to the end. In AutoGen it does nothing.

        Raises:
            TeamNotRunError: The team has never run (a RuntimeError).
        """
        self._check_has_run("can't be paused")
        self._gate.clear()
        for participant in self._participants.values():
            await (
                participant.pause()
                if isinstance(participant, Team)
                else participant.on_pause(CancellationToken())
            )

    async def resume(self) -> None:
        """Go on after `pause`.

        Raises:
            TeamNotRunError: The team has never run (a RuntimeError).
        """
        self._check_has_run("can't be resumed")
        for participant in self._participants.values():
            await (
                participant.resume()
                if isinstance(participant, Team)
                else participant.on_resume(CancellationToken())
            )
        self._gate.set()

    async def save_state(self) -> Mapping[str, Any]:
        """All that team and members remember, as plain data, in AutoGen's shape and with what AutoGen loses."""
        loop = self._turn_loop()
        states = {name: await participant.save_state() for name, participant in self._participants.items()}
        return await dump_team(self.plan, loop.state, loop.selection, loop.termination, states)

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned, here or in AutoGen.

        Raises:
            TeamNotRunError: A run is under way (a RuntimeError).
            TeamStateError: It does not fit the team (a ValueError).
        """
        self._check_is_idle("can't load a state")
        loop = self._turn_loop()
        states = await load_team(self.plan, loop.state, loop.selection, loop.termination, state)
        for name, saved in states.items():
            await self._participants[name].load_state(saved)

    # Parts

    def _turn_loop(self) -> TurnLoop:
        if self._loop is None:
            state = ConversationState()
            selection = self.new_selection()
            selection.keep_context_in(state.context)
            self._loop = TurnLoop(self.plan, state, selection, self._termination)
        return self._loop

    def _check_is_idle(self, what: str) -> None:
        if self._is_running:
            raise TeamNotRunError(self.name, f"{what} while it is running")

    def _check_has_run(self, what: str) -> None:
        if self._loop is None:
            raise TeamNotRunError(self.name, f"{what} before its first run")


def _check_members(participants: Sequence[Participant], name: str, max_turns: int | None) -> None:
    if not name.isidentifier():
        raise AgentNameError(name, "a team")
    if not participants:
        raise TeamDeclarationError("At least one participant is required.")
    names = [participant.name for participant in participants]
    if len(names) != len(set(names)):
        raise TeamDeclarationError("The participant names must be unique.")
    if max_turns is not None and max_turns <= 0:
        raise TeamDeclarationError("The maximum number of turns must be greater than 0.")


def _factory(
    participants: Sequence[Participant], custom: Iterable[type[BaseAgentEvent | BaseChatMessage]]
) -> MessageFactory:
    factory = MessageFactory(custom)
    for participant in participants:
        for message_type in () if isinstance(participant, Team) else participant.produced_message_types:
            if issubclass(message_type, StructuredMessage) and not factory.is_registered(message_type):
                factory.register(message_type)
    return factory
