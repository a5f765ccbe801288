"""The base of all teams, with checks, config and agent types; and the plainest: members in turn, or one alone."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import or_
from typing import Any, Never, Protocol, Self

from pydantic import BaseModel, ConfigDict

from callboard.agents.base import (
    BaseChatAgent,
    ChatAgent,
    Said,
    Task,
    TaskResult,
    Team,
    check_arguments,
    copy_of,
    result_of,
    task_messages,
    twin_of,
)
from callboard.agents.errors import wrong_name
from callboard.conditions.base import TerminationCondition
from callboard.core.agent import BaseAgent
from callboard.core.cancellation import CancellationToken
from callboard.core.declaration import AgentClass, AgentSettings
from callboard.core.protocol import AgentRuntime
from callboard.errors import DuplicateAgentTypeError
from callboard.foundation.component import Component, ComponentModel, dumped
from callboard.messages.chat import BaseAgentEvent, BaseChatMessage, StructuredMessage
from callboard.messages.events import MessageFactory
from callboard.runtime.runtime import RedisAgentRuntime

from .budget import RunBudget, check_budget, not_limited
from .client import TeamClient
from .errors import TeamDeclarationError
from .local_run import ConversationHere
from .loop import LedTeam, Member, Participant, RoundRobinSelection, SpeakerSelection, TeamPlan
from .manager import TeamManager
from .member import MemberActor
from .protocol import StartRun, check_conversation, check_run_id, member_type


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
        AgentSettingError: The name is no identifier (a ValueError).
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
        """Its description, for those that choose who speaks."""
        return self._description

    @property
    def plan(self) -> TeamPlan:
        """The team as the turn loop knows it."""
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
        **unknown: Never,
    ) -> TaskResult:
        """Carry out a task; see `run_stream`."""
        check_arguments("run", unknown)
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
        **unknown: Never,
    ) -> AsyncGenerator[Said | TaskResult, None]:
        """Carry out a task; yields what is said as it is said, and at last the TaskResult.

        Members remember what was said in earlier runs; without a task they go on with it.

        Args:
            task: What to do.
            cancellation_token: Ends the run at once.
            output_task_messages: Whether the task is in the result, too.
            budget: The most that this run may use; None: the budget that the team was made with, if any.
            **unknown: Nothing; an error names what was meant.

        Raises:
            TeamBusyError: A run is under way (a ValueError).
            RunBudgetExceededError: The run has used what it may (a RuntimeError).
            AgentSettingError: The task is none (a ValueError).
            TeamRunError: A member failed (a RuntimeError).
            TeamOutputError: The last message is not what `output_content_type` asks for (a ValueError).
            asyncio.CancelledError: The token was cancelled.
        """
        check_arguments("run_stream", unknown)
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
        """Let no member begin to speak until `resume`; who is speaking goes on to the end. In AutoGen it does nothing.

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
            AgentSettingError: A member can't be copied (a TypeError).
        """
        fresh = copy.copy(self)
        fresh._runtime = None
        fresh._participants = [twin_of(participant) for participant in self._participants]
        fresh._termination = copy_of(self._termination) if self._termination is not None else None
        fresh._conversation = fresh._here()
        return fresh

    def limited(
        self, name: str, *, max_turns: int | None = None, termination: TerminationCondition | None = None
    ) -> Self:
        """A team like this one, in this process, that also ends by these limits.

        Args:
            name: Its name.
            max_turns: How many rounds a run has at most; of this and the team's own number the smaller one counts.
            termination: When it ends as well.

        Raises:
            TeamDeclarationError, AgentSettingError: As for a team (a ValueError).
        """
        check_team(self._participants, name, termination, max_turns, None)
        fresh, conditions = (
            copy.copy(self),
            [one for one in (self._termination, termination) if one is not None],
        )
        fresh._name, fresh._runtime = name, None
        fresh._termination = reduce(or_, conditions) if conditions else None
        limits = [most for most in (self._plan.max_turns, max_turns) if most is not None]
        fresh._plan = replace(self._plan, max_turns=min(limits, default=None))
        fresh._conversation = fresh._here()
        return fresh

    # On the bus

    def on(self, runtime: AgentRuntime, conversation: str = "default") -> TeamClient:
        """A conversation of this team on the bus, where its processes run.

        Args:
            runtime: Reaches them; it needs none of the team's agents itself. In a handler `self.runtime`.
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
        for hosted in hosted_types(self, self._name, app.hearers_of(self._name)):
            app.register(
                hosted.name,
                hosted.factory,
                expected_class=hosted.agent_class,
                processes=processes,
                settings=settings,
            )

    def order(self, run_id: str, task: str, conversation: str | None = None) -> StartRun:
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
        return StartRun(run_id=run_id, task=list(task_messages(task)), if_busy="enqueue")

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
    # What members declare need not be declared again by the team, as AutoGen wants it of all but structured messages: else
    # AG2's agents could be no members.
    for message_type in produced:
        if not factory.is_registered(message_type):
            factory.register(message_type)
    return factory


def check_team(
    participants: Sequence[Participant],
    name: str,
    condition: TerminationCondition | None,
    max_turns: int | None,
    budget: RunBudget | None,
) -> None:
    """Check what a team is made of.

    Raises:
        TeamDeclarationError: It can't be this (a ValueError).
        AgentSettingError: The name is no identifier (a ValueError).
    """
    if not name.isidentifier():
        raise wrong_name(name, "a team")
    check_participants(participants)
    _check_condition(condition)
    _check_turns(max_turns)
    check_budget(budget)
    problem = not_limited(participants) if budget is not None and budget.is_for_models else ""
    if problem:
        raise TeamDeclarationError(f"A budget can't hold: {problem}.")


def check_participants(given: object) -> None:
    """Check that these can be the members of a team.

    Raises:
        TeamDeclarationError: They are no list, are none, or two have one name (a ValueError).
    """
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise TeamDeclarationError(
            f"The participants have to be a list, [...], and not a {type(given).__name__}."
        )
    participants: Sequence[Any] = given
    if not participants:
        raise TeamDeclarationError("At least one participant is required.")
    for one in participants:
        if isinstance(one, BaseChatAgent):
            one.name  # noqa: B018 - of an agent that was not set up, it says so
        if isinstance(one, type) or not hasattr(one, "name"):
            raise TeamDeclarationError(f"{one!r} can't take part in a team: give an agent, or a team.")
    names = [one.name for one in participants]
    if len(names) != len(set(names)):
        raise TeamDeclarationError("The participant names must be unique.")


def _check_condition(given: object) -> None:
    if given is not None and (isinstance(given, type) or not hasattr(given, "terminated")):
        raise TeamDeclarationError(
            f"{given!r} can't be a termination_condition: give an object, such as MaxMessageTermination(10)."
        )


def _check_turns(given: object) -> None:
    if given is None:
        return
    # What is no whole number would limit nothing.
    if isinstance(given, bool) or not isinstance(given, int):
        raise TeamDeclarationError(f"The maximum number of turns must be a whole number, and not {given!r}.")
    if given <= 0:
        raise TeamDeclarationError("The maximum number of turns must be greater than 0.")


def introduce(participants: Sequence[Participant]) -> None:
    """Tell every agent the names of all members.

    Raises:
        ValueError: One of them can't work with these.
    """
    names = [participant.name for participant in participants]
    for participant in participants:
        if isinstance(participant, BaseChatAgent):
            participant.on_joined(names)


class Declaring(Protocol):
    """An App, as far as a team needs it."""

    def register(
        self,
        type: str,
        factory: Callable[[], BaseAgent],
        *,
        expected_class: AgentClass,
        processes: int = 1,
        settings: AgentSettings | None = None,
    ) -> object:
        """Declare an agent type."""
        ...

    def hearers_of(self, team: str) -> Sequence[str]:
        """The agent types that hear of every run of a team; some may be added to it later."""
        ...


@dataclass(frozen=True, slots=True)
class HostedType:
    """One agent type of a team.

    Attributes:
        name: That of the team, and behind a dot that of the member.
        factory: Makes an agent of it.
        agent_class: Its class.
    """

    name: str
    factory: Callable[[], BaseAgent]
    agent_class: type[BaseAgent]


def hosted_types(team: LedTeam, type: str, heard_by: Sequence[str] = ()) -> Iterator[HostedType]:
    """The agent types of a team: its manager, its members, and those of members that are teams.

    Args:
        team: The team.
        type: The agent type of its manager.
        heard_by: Agent types that hear of every run of the team, not of those that its members have in it.
    """
    yield HostedType(type, partial(TeamManager, team, heard_by), TeamManager)
    for participant in team.participants:
        member = member_type(type, participant.name)
        if isinstance(participant, LedTeam):
            yield from hosted_types(participant, member)
        else:
            yield HostedType(member, partial(MemberActor, participant), MemberActor)


async def host(team: LedTeam, runtime: RedisAgentRuntime, type: str) -> None:
    """Register the agent types of a team with a runtime; those that are registered already stay.

    Raises:
        TeamDeclarationError: Another team has one of them (a ValueError).
    """
    for hosted in hosted_types(team, type):
        runtime.add_message_types(hosted.agent_class.message_types())
        try:
            await runtime.register_factory(hosted.name, hosted.factory, expected_class=hosted.agent_class)
        except DuplicateAgentTypeError:
            _check_same(hosted, runtime.local.agents.kind(hosted.name).factory)


def _check_same(hosted: HostedType, there: object) -> None:
    """Refuse a type that stands for something else: a run would be carried out by the members of another team.

    Two teams of one name are one where they are made alike, as by a function that is called for each request.
    """
    known, own = _part_of(there), _part_of(hosted.factory)
    if known is None:
        raise DuplicateAgentTypeError(hosted.name)
    has_no_name = own.name == type(own).__name__ and own is not known
    difference = "a team that was given no name is one object" if has_no_name else _difference(own, known)
    if difference:
        raise TeamDeclarationError(
            f"Another team is registered as {hosted.name!r}, and this is not the same one: {difference}. Give this one "
            "a name of its own; another conversation of the first one is `first.on(runtime, conversation)`."
        )


def _part_of(factory: object) -> Any:
    """The team or the member that the agents of a hosted type are made from; None: it is no such type."""
    if isinstance(factory, partial) and factory.func in (TeamManager, MemberActor):
        return factory.args[0]
    return None


def _difference(one: Any, other: Any) -> str:
    """What differs between two teams or members as far as it can be seen; "": nothing."""
    if one is other:
        return ""
    if type(one) is not type(other):
        return f"{one.name!r} is a {type(one).__name__}, and was a {type(other).__name__}"
    if isinstance(one, BaseGroupChat):
        for what in ("members", "max_turns", "emit_team_events", "budget"):
            if getattr(one.plan, what) != getattr(other.plan, what):
                return f"{what} of {one.name!r} differ"
        return ""
    return "" if _seen(one) == _seen(other) else f"the member {one.name!r} is another one"


def _seen(member: Any) -> object:
    """What can be compared of a member: its dump, or else its description."""
    try:
        return dumped(member, member)
    except Exception:  # noqa: BLE001 - what can't be dumped, for whatever reason, can't be compared
        return member.description


class TeamConfig(BaseModel):
    """A team as plain data; its fields are arguments of the team. Functions and classes are not among them."""

    model_config = ConfigDict(protected_namespaces=())

    name: str | None = None
    description: str | None = None
    participants: list[ComponentModel]
    termination_condition: ComponentModel | None = None
    max_turns: int | None = None
    emit_team_events: bool = False
    budget: RunBudget | None = None

    def arguments(self) -> dict[str, Any]:
        """The arguments that a team is made from, but for those of some kinds only."""
        condition = self.termination_condition
        return {
            "participants": [_participant(each) for each in self.participants],
            "name": self.name,
            "description": self.description,
            "termination_condition": None
            if condition is None
            else TerminationCondition.load_component(condition),
            "max_turns": self.max_turns,
            "emit_team_events": self.emit_team_events,
            "budget": self.budget,
        }


def common_config(team: LedTeam) -> dict[str, Any]:
    """The fields of a team's config that all have.

    Raises:
        NotDumpableError: A member or the condition is no component (a TypeError).
    """
    condition = team.termination_condition
    return {
        "name": team.name,
        "description": team.description,
        "participants": [dumped(participant, team) for participant in team.participants],
        "termination_condition": None if condition is None else dumped(condition, team),
        "max_turns": team.plan.max_turns,
        "emit_team_events": team.plan.emit_team_events,
        "budget": team.plan.budget,
    }


def _participant(config: ComponentModel) -> Participant:
    return (
        Team.load_component(config) if config.component_type == "team" else ChatAgent.load_component(config)
    )


class RoundRobinGroupChatConfig(TeamConfig):
    """A RoundRobinGroupChat as plain data."""


class RoundRobinGroupChat(BaseGroupChat, Component[RoundRobinGroupChatConfig]):
    """A team whose members speak one after the other, again and again.

    Args:
        participants: The members, in their order.
        name: Its name.
        description: What it can do, for a larger team.
        termination_condition: When a run ends; None: `max_turns` ends it, or nothing.
        max_turns: How many turns a run has at most.
        **options: See BaseGroupChat.
    """

    component_config_schema = RoundRobinGroupChatConfig
    component_provider_override = "callboard.teams.RoundRobinGroupChat"

    def __init__(
        self,
        participants: Sequence[Participant],
        *,
        name: str | None = None,
        description: str | None = None,
        termination_condition: TerminationCondition | None = None,
        max_turns: int | None = None,
        custom_message_types: Sequence[type[BaseAgentEvent | BaseChatMessage]] | None = None,
        emit_team_events: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(
            participants,
            name=name or "RoundRobinGroupChat",
            description=description or "A team of agents.",
            manager_name="RoundRobinGroupChatManager",
            termination_condition=termination_condition,
            max_turns=max_turns,
            custom_message_types=custom_message_types,
            emit_team_events=emit_team_events,
            **options,
        )

    def _to_config(self) -> RoundRobinGroupChatConfig:
        return RoundRobinGroupChatConfig(**common_config(self))

    @classmethod
    def _from_config(cls, config: RoundRobinGroupChatConfig) -> Self:
        return cls(**config.arguments())

    def new_selection(self) -> SpeakerSelection:
        """One after the other, beginning with the first."""
        return RoundRobinSelection()


class SoloAgent(BaseGroupChat):
    """An agent that answers every task with one turn, as an actor of its own: ``app.team(SoloAgent(assistant))``.

    Its conversations go on after a crash, as those of larger teams do.

    Args:
        agent: The agent.
        name: Its agent type; None: the agent's name.
    """

    def __init__(self, agent: ChatAgent, *, name: str | None = None) -> None:
        super().__init__(
            [agent],
            name=name or agent.name,
            description=agent.description,
            manager_name=name or agent.name,
            max_turns=1,
        )

    def new_selection(self) -> SpeakerSelection:
        """There is only one to choose."""
        return RoundRobinSelection()
