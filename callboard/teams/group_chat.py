"""What all teams have in common."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Self

from pydantic import BaseModel

from callboard.agents.copying import copy_of, twin_of
from callboard.agents.responding import result_of
from callboard.agents.task import Said, Task, TaskResult, task_messages
from callboard.agents.team import Team
from callboard.cancellation import CancellationToken
from callboard.conditions.base import TerminationCondition
from callboard.declaration import AgentSettings
from callboard.messages.base import BaseAgentEvent, BaseChatMessage
from callboard.messages.factory import MessageFactory
from callboard.messages.structured import StructuredMessage
from callboard.runtime.runtime import RedisAgentRuntime

from .budget import RunBudget
from .checks import check_team
from .client import TeamClient
from .given_ids import check_conversation, check_run_id
from .here import ConversationHere
from .hosting import Declaring, host, hosted_types
from .joining import introduce
from .local import Participant
from .loop import TeamPlan
from .orders import BeginRun, StartRun
from .selection import Member, SpeakerSelection


class BaseGroupChat(Team):
    """A team: a manager decides who speaks next, and its members hear what the others say.

    Without a runtime the members are called in this process, and what they remember lasts as long as the objects.

    With one, manager and members are actors on the bus. Their agent types are the team's name, and behind a dot the
    member's: ``research``, ``research.writer``. What they remember is stored with each turn, so that a run goes on when any
    process dies. `runtime=` registers them in this process; `App.team` declares them for processes of their own, and
    `on` reaches them from anywhere.

    Args:
        participants: The members: agents, or teams.
        name: Its name, a Python identifier.
        description: What it can do, for a larger team.
        manager_name: The source of what its manager says.
        termination_condition: When a run ends; None: nothing but `max_turns` and the strategy ends it.
        max_turns: How many rounds a run has at most.
        runtime: The bus; None: this process. Give the team a name then: a restarted program finds its conversations by it.
        conversation: With a runtime, the id of the conversation that `run` and the others are about.
        custom_message_types: Types of messages of your own that members say.
        emit_team_events: Whether readers see a SelectSpeakerEvent before each turn.
        output_content_type: What the last message of a run is read as: a StructuredMessage of it, or JSON in a text. The
            result's `output` is the object; a run whose last message does not fit ends with TeamOutputError.
        budget: The most that each of its runs may use; None: as much as it takes. As a member of a larger team it has it
            for each of its turns.

    Raises:
        TeamDeclarationError: A member is missing or is none, two have one name, or the condition is none (a ValueError).
        AgentNameError: The name is no identifier (a ValueError).
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
        runtime: RedisAgentRuntime | None = None,
        conversation: str = "default",
        custom_message_types: Iterable[type[BaseAgentEvent | BaseChatMessage]] | None = None,
        emit_team_events: bool = False,
        output_content_type: type[BaseModel] | None = None,
        budget: RunBudget | None = None,
    ) -> None:
        check_team(participants, name, termination_condition, max_turns, budget)
        self._name = name
        self._description = description
        self._participants = list(participants)
        self._termination = termination_condition
        introduce(participants)
        members = [Member(participant.name, participant.description) for participant in participants]
        factory = _factory(participants, custom_message_types or (), output_content_type)
        self._plan = TeamPlan(manager_name, members, max_turns, emit_team_events, factory, budget)
        self._output_content_type = output_content_type
        self._runtime = runtime
        self._conversation: ConversationHere | TeamClient
        self._conversation = self._here() if runtime is None else self.on(runtime, conversation)

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
    def plan(self) -> TeamPlan:
        """What the turn loop has to know of it."""
        return self._plan

    @property
    def participants(self) -> Sequence[Participant]:
        """The members, in their order."""
        return self._participants

    @property
    def termination_condition(self) -> TerminationCondition | None:
        """When a run ends; conversations on the bus have copies of it."""
        return self._termination

    # Runs

    async def run(
        self,
        *,
        task: Task = None,
        cancellation_token: CancellationToken | None = None,
        output_task_messages: bool = True,
        budget: RunBudget | None = None,
    ) -> TaskResult:
        """Carry out a task; see `run_stream`."""
        stream = self.run_stream(
            task=task,
            cancellation_token=cancellation_token,
            output_task_messages=output_task_messages,
            budget=budget,
        )
        return await result_of(stream, self.name)

    async def run_stream(
        self,
        *,
        task: Task = None,
        cancellation_token: CancellationToken | None = None,
        output_task_messages: bool = True,
        budget: RunBudget | None = None,
    ) -> AsyncGenerator[Said | TaskResult, None]:
        """Carry out a task; yields what is said as it is said, and at last the TaskResult.

        Members remember what was said in earlier runs; without a task they go on with it.

        Args:
            task: What to do.
            cancellation_token: Ends the run at once.
            output_task_messages: Whether the task is in the result, too.
            budget: The most that this run may use; None: the budget that the team was made with, if any.

        Raises:
            TeamBusyError: A run is under way (a ValueError).
            RunBudgetExceededError: The run has used what it may (a RuntimeError).
            TaskError: The task is none (a ValueError).
            TeamRunError: A member failed (a RuntimeError).
            TeamOutputError: The last message is not what `output_content_type` asks for (a ValueError).
            asyncio.CancelledError: The token was cancelled.
        """
        await self._register()
        stream = self._conversation.run_stream(
            task=task,
            cancellation_token=cancellation_token,
            output_task_messages=output_task_messages,
            budget=budget,
        )
        async with aclosing(stream) as items:
            async for item in items:
                yield item

    async def reset(self) -> None:
        """Be as in the beginning, with all members.

        Raises:
            TeamNotRunError: A run is under way (a RuntimeError).
        """
        await self._register()
        await self._conversation.reset()

    async def pause(self) -> None:
        """Let nobody begin to speak until `resume`; who is speaking goes on to the end. In AutoGen it does nothing.

        Raises:
            TeamNotRunError: The team has never run; on the bus: no run is under way (a RuntimeError).
        """
        await self._conversation.pause()

    async def resume(self) -> None:
        """Go on after `pause`.

        Raises:
            TeamNotRunError: As for `pause` (a RuntimeError).
        """
        await self._conversation.resume()

    async def save_state(self) -> Mapping[str, Any]:
        """All that team and members remember, as plain data, in AutoGen's shape and with what AutoGen loses."""
        await self._register()
        return await self._conversation.save_state()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned, here or in AutoGen.

        Raises:
            TeamNotRunError: A run is under way (a RuntimeError).
            TeamStateError: It does not fit the team (a ValueError).
        """
        await self._register()
        await self._conversation.load_state(state)

    def for_conversation(self) -> Self:
        """A team like this one, in this process, for another conversation, in which nothing was said yet.

        Raises:
            ConversationError: A member can't be copied (a TypeError).
        """
        fresh = copy.copy(self)
        fresh._runtime = None
        fresh._participants = [twin_of(participant) for participant in self._participants]
        fresh._termination = copy_of(self._termination) if self._termination is not None else None
        fresh._conversation = fresh._here()
        return fresh

    # On the bus

    def on(self, runtime: RedisAgentRuntime, conversation: str = "default") -> TeamClient:
        """A conversation of this team on the bus, where its processes run.

        Args:
            runtime: Reaches them; it needs none of the team's agents itself.
            conversation: Its id.
        """
        return TeamClient(runtime, self._name, conversation, self._output_content_type)

    def declare(self, app: Declaring, *, processes: int = 1, settings: AgentSettings | None = None) -> None:
        """Declare manager and members in an app; `App.team` calls it.

        Args:
            app: The app.
            processes: How many processes `callboard up` runs for each of them.
            settings: How their messages are handled.
        """
        for hosted in hosted_types(self, self._name):
            app.register(
                hosted.name,
                hosted.factory,
                expected_class=hosted.agent_class,
                processes=processes,
                settings=settings,
            )

    def order(self, run_id: str, task: str, conversation: str | None = None) -> BeginRun:
        """The message to the manager of this team that begins a run, or lets it wait for the one under way.

        Args:
            run_id: Id of the run.
            task: What to do.
            conversation: Id of the conversation; None: that of the run.

        Raises:
            SettingValueError: An id is too long, or can't be one (a ValueError).
        """
        check_run_id(run_id)
        check_conversation(run_id if conversation is None else conversation)
        return BeginRun(run=StartRun(run_id=run_id, task=list(task_messages(task)), if_busy="enqueue"))

    def _here(self) -> ConversationHere:
        return ConversationHere(self, self._output_content_type)

    async def _register(self) -> None:
        if self._runtime is not None:
            await host(self, self._runtime, self._name)


def _factory(
    participants: Sequence[Participant],
    custom: Iterable[type[BaseAgentEvent | BaseChatMessage]],
    output: type[BaseModel] | None,
) -> MessageFactory:
    factory = MessageFactory(custom)
    produced: list[type[BaseChatMessage]] = []
    if output is not None:
        produced.append(StructuredMessage[output])  # type: ignore[valid-type]
    for participant in participants:
        produced += () if isinstance(participant, Team) else participant.produced_message_types
    for message_type in produced:
        if issubclass(message_type, StructuredMessage) and not factory.is_registered(message_type):
            factory.register(message_type)
    return factory
