"""Patterns: who takes part in a group chat, how they hand over, and the group chat that is made of that."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from typing import Any, Final, Self, TypeVar

from callboard.agents.base import twin_of
from callboard.core.protocol import AgentRuntime
from callboard.groupchat.chats import ChatResult
from callboard.groupchat.context_variables import ContextVariables
from callboard.groupchat.conversable import ConversableAgent
from callboard.groupchat.errors import GroupChatDeclarationError
from callboard.groupchat.events import wait_for
from callboard.groupchat.messages import Agent, Message
from callboard.groupchat.selection import GroupChatTeam

from .handoffs import (
    HandoffPart,
    OnCondition,
    OnContextCondition,
    TransitionTarget,
    check_target,
    not_by_itself,
)
from .hidden_agents import GroupToolExecutor, abilities_of, helper_for
from .targets import (
    AgentTarget,
    AskUserTarget,
    FunctionTarget,
    GroupManagerSelectionMessage,
    GroupManagerTarget,
    RandomAgentTarget,
    RevertToUserTarget,
    TerminateTarget,
)
from .turn_order import NoHelpers, PatternChat, PatternManager, PatternPlan

TEMPORARY_USER: Final = "_User"
NOT_IN_TOOL_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]")  # of OpenAI, at most 64 characters
LONGEST_TARGET: Final = 48  # characters

C = TypeVar("C", OnCondition, OnContextCondition)


@dataclass(frozen=True)
class Given:
    """Parts of a pattern.

    Attributes:
        initial: Who speaks first.
        agents: Who takes part.
        user: The user's agent; None: there is none.
        manager_args: For the manager.
        context_variables: What the agents share.
        after_works: What is done when an agent has spoken, by name, instead of what the agents say themselves.
        group_after_work: What is done else.
        hides_transits: Whether no agent sees the calls of tools that hand over.
    """

    initial: ConversableAgent
    agents: Sequence[ConversableAgent]
    user: ConversableAgent | None
    manager_args: Mapping[str, Any]
    context_variables: ContextVariables
    after_works: Mapping[str, TransitionTarget]
    group_after_work: TransitionTarget
    hides_transits: bool


@dataclass(frozen=True)
class _Conditions:
    """Conditions of one agent, with helpers in the places of the targets that need one."""

    llm: Mapping[str, OnCondition]
    context: Sequence[OnContextCondition]
    after: Sequence[OnContextCondition]

    @property
    def targets(self) -> list[TransitionTarget]:
        """All targets."""
        return [one.target for one in self.llm.values()] + [
            one.target for one in (*self.context, *self.after)
        ]


def prepare(given: Given, max_rounds: int, users: Sequence[ConversableAgent]) -> PatternManager:
    """The manager of a group chat with these agents, the executor, and the helpers; each knows its part.

    Args:
        given: What the pattern is made of.
        max_rounds: How many messages a run has at most.
        users: The user's agent, or one for the time of the chat; or none.

    Raises:
        GroupChatDeclarationError: A target is not in the group, or needs a user or a model that is not there, or two tools
            or functions have one name (a ValueError).
    """
    helpers: list[ConversableAgent] = []
    owners = [*given.agents, *([] if given.user is None else [given.user])]
    conditions = {agent.name: _conditions(agent, given, helpers) for agent in owners}
    for helper in helpers:
        conditions[helper.name] = _Conditions({}, [], helper.handoffs.after_works)
    agents = [*given.agents, *helpers]
    _check_conditions(given, conditions, [one.name for one in (*agents, *users)])
    abilities = {
        agent.name: abilities_of(agent, conditions[agent.name].llm, given.agents) for agent in given.agents
    }
    chat = PatternChat(
        [GroupToolExecutor(abilities), *agents, *users],
        max_round=max_rounds,
        eligibility_policies=[NoHelpers(frozenset(one.name for one in (*given.agents, *users)))],
        plan=_plan(given, agents, conditions),
        context_variables=given.context_variables,
    )
    manager = PatternManager(chat, **given.manager_args)
    _take_part(manager, given, conditions)
    return manager


def _take_part(manager: PatternManager, given: Given, conditions: Mapping[str, _Conditions]) -> None:
    """Each knows its part, and all have the same variables."""
    tools = (name for one in conditions.values() for name in one.llm)
    hidden = frozenset(tools) if given.hides_transits else frozenset[str]()
    manager.context_variables = given.context_variables
    for agent in _members(manager):
        own = conditions[agent.name] if agent in given.agents else None
        agent.part = HandoffPart({}) if own is None else HandoffPart(own.llm, own.context, hidden)
        agent.context_variables = given.context_variables


def release(manager: PatternManager) -> None:
    """Take the parts of the agents away: they may chat elsewhere."""
    for agent in _members(manager):
        agent.part = None


def _members(manager: PatternManager) -> Iterable[ConversableAgent]:
    return (agent for agent in manager.groupchat.agents if isinstance(agent, ConversableAgent))


def _conditions(agent: ConversableAgent, given: Given, helpers: list[ConversableAgent]) -> _Conditions:
    """Conditions of an agent; helpers that it needs are added."""
    handoffs, own = agent.handoffs, len(helpers)

    def helped(one: C) -> C:
        if not one.target.needs_agent_wrapper():
            return one
        helper = helper_for(one.target, agent.name, len(helpers) - own + 1)
        helper.handoffs.set_after_work(AgentTarget(agent))
        helpers.append(helper)
        return replace(one, target=AgentTarget(helper))

    llm = [helped(one) for one in handoffs.llm_conditions]
    context = [helped(one) for one in handoffs.context_conditions]
    instead = given.after_works.get(agent.name)
    after = handoffs.after_works if instead is None else [OnContextCondition(instead)]
    tools = {_tool_name(one, number): one for number, one in enumerate(llm, 1)}
    taken = sorted(
        {*tools} & {*agent.function_map, *(getattr(tool, "name", "") for tool in agent.functions.offered)}
    )
    if taken or len(tools) < len(llm):
        raise GroupChatDeclarationError(
            f"{agent.name!r} has two tools of one name, of which one hands over: {taken or list(tools)}."
        )
    return _Conditions(
        tools,
        context,
        [helped(one) for one in after],
    )


def _tool_name(one: OnCondition, number: int) -> str:
    """The name of a tool that hands over, as an API takes it, unless the user has given one."""
    target = NOT_IN_TOOL_NAMES.sub("_", one.target.normalized_name())[:LONGEST_TARGET]
    return one.llm_function_name or f"transfer_to_{target}_{number}"


def _plan(
    given: Given,
    agents: Sequence[ConversableAgent],
    conditions: Mapping[str, _Conditions],
) -> PatternPlan:
    targets = [given.group_after_work, *(target for one in conditions.values() for target in one.targets)]
    return PatternPlan(
        initial=given.initial.name,
        agents=tuple(agent.name for agent in agents),
        user=None if given.user is None else given.user.name,
        after_works={name: tuple(one.after) for name, one in conditions.items()},
        group_after_work=given.group_after_work,
        functions=_functions(targets),
    )


def _functions(targets: Iterable[TransitionTarget]) -> dict[str, FunctionTarget]:
    found: dict[str, FunctionTarget] = {}
    for target in targets:
        if isinstance(target, FunctionTarget) and found.setdefault(target.fn_name, target).fn != target.fn:
            raise GroupChatDeclarationError(
                f"Two functions that decide have the name {target.fn_name!r}: rename one."
            )
    return found


def _check_conditions(given: Given, conditions: Mapping[str, _Conditions], names: Sequence[str]) -> None:
    if given.initial.name not in names:
        raise GroupChatDeclarationError(
            f"The initial agent {given.initial.name!r} has to be one of the agents: {list(names)}."
        )
    if given.group_after_work.needs_agent_wrapper():
        raise not_by_itself(given.group_after_work)
    has_model = bool(given.manager_args.get("llm_config"))
    for owner, target in _all_targets(given, conditions):
        strangers = [name for name in target.names() if name not in names]
        if strangers:
            raise GroupChatDeclarationError(
                f"{owner} hands over to {strangers[0]!r}, who has to be one of the agents: {list(names)}."
            )
        if isinstance(target, RevertToUserTarget) and given.user is None:
            raise GroupChatDeclarationError(f"{owner} hands over to the user: give the pattern a user_agent.")
        if isinstance(target, GroupManagerTarget) and not has_model:
            raise GroupChatDeclarationError(
                f"{owner} lets the group manager choose, who has no model: give the pattern "
                "group_manager_args={'llm_config': ...}."
            )


def _all_targets(
    given: Given, conditions: Mapping[str, _Conditions]
) -> Iterable[tuple[str, TransitionTarget]]:
    yield "The group", given.group_after_work
    for name, one in conditions.items():
        for target in one.targets:
            yield repr(name), target


def temporary_user() -> ConversableAgent:
    """An agent that says the first message where there is no user; a person answers for it."""
    return ConversableAgent(TEMPORARY_USER, human_input_mode="ALWAYS", description="The user.")


MAX_ROUNDS = 20


class Pattern:
    """Who takes part in a group chat, and how they hand over. `initiate_group_chat` lets them chat; `team` is for the bus.

    A hidden agent executes what the others call. All agents share one set of context variables.

    Args:
        initial_agent: Who speaks first.
        agents: Who takes part.
        user_agent: The user's agent.
        group_manager_args: For the GroupChatManager, such as "llm_config" and "is_termination_msg".
        context_variables: What the agents share, as it is in the beginning.
        group_after_work: Who is next, where an agent hands over to none and has nothing to do after work; None: the chat
            is over.
        exclude_transit_message: Whether no agent sees the calls of tools that hand over.
        summary_method: See `ConversableAgent.a_initiate_chat`.

    Raises:
        GroupChatDeclarationError: `group_after_work` is no target, or an agent no ConversableAgent (a TypeError and a
            ValueError).
    """

    def __init__(
        self,
        initial_agent: ConversableAgent,
        agents: Sequence[ConversableAgent],
        user_agent: ConversableAgent | None = None,
        group_manager_args: Mapping[str, Any] | None = None,
        context_variables: ContextVariables | None = None,
        group_after_work: TransitionTarget | None = None,
        exclude_transit_message: bool = True,
        summary_method: str | Callable[..., Any] | None = "last_msg",
    ) -> None:
        _check_agents([initial_agent, *agents, *([] if user_agent is None else [user_agent])])
        self.initial_agent = initial_agent
        self.agents = list(agents)
        self.user_agent = user_agent
        self.group_manager_args = dict(group_manager_args or {})
        self.context_variables = ContextVariables() if context_variables is None else context_variables
        self.group_after_work: TransitionTarget = TerminateTarget()
        if group_after_work is not None:
            check_target(group_after_work)
            self.group_after_work = group_after_work
        self.exclude_transit_message = exclude_transit_message
        self.summary_method = summary_method

    @property
    def members(self) -> list[ConversableAgent]:
        """The agents without the user's, if that was among them."""
        return [agent for agent in self.agents if agent is not self.user_agent]

    def everybody(self) -> list[ConversableAgent]:
        """The agents and the user's."""
        return [*self.members, *([] if self.user_agent is None else [self.user_agent])]

    def after_works(self) -> Mapping[str, TransitionTarget]:
        """Targets in the place of what agents do after work, by their names; here: none."""
        return {}

    def manager_args(self) -> Mapping[str, Any]:
        """For the manager."""
        return self.group_manager_args

    def team(
        self,
        *,
        name: str | None = None,
        max_rounds: int = MAX_ROUNDS,
        runtime: AgentRuntime | None = None,
        conversation: str = "default",
        **options: Any,
    ) -> GroupChatTeam:
        """The same for the bus, where the manager and each agent may have a process of its own; for `App.team`.

        Context variables travel with the messages, so their values have to fit into JSON there.

        Args:
            name: Of the team and its manager; None: that of `group_manager_args`, else "chat_manager".
            max_rounds: How many messages a run has at most.
            runtime: The bus.
            conversation: Id of the conversation that `run` is about.
            **options: See BaseGroupChat.

        Raises:
            GroupChatDeclarationError: See `prepare_group_chat` (a ValueError).
        """
        named = {} if name is None else {"name": name}
        users = [] if self.user_agent is None else [self.user_agent]
        # The agents may be in a chat of this process meanwhile.
        before = [(agent, agent.part, agent.context_variables) for agent in self.everybody()]
        manager = prepare(self._given(named), max_rounds, users)
        try:
            return manager.team(runtime=runtime, conversation=conversation, **options)
        finally:
            release(manager)
            for agent, part, variables in before:
                agent.part, agent.context_variables = part, variables

    async def chat(
        self, messages: Sequence[Message] | str, max_rounds: int = MAX_ROUNDS, *, silent: bool | None = False
    ) -> tuple[ChatResult, ContextVariables, Agent | None]:
        """Let them chat in this process; see `a_initiate_group_chat`."""
        busy = next((agent.name for agent in self.everybody() if agent.part is not None), None)
        if busy is not None:
            raise GroupChatDeclarationError(
                f"{busy!r} is in a group chat that is under way: chats side by side are runs, which copy the agents "
                "(a_run_group_chat)."
            )
        # A message without a name is the user's: also when a chat goes on from the messages of an earlier one.
        user = TEMPORARY_USER if self.user_agent is None else self.user_agent.name
        given = [{**one, "name": one.get("name") or user} for one in _messages(messages)]
        manager, starter = self.prepare_group_chat(max_rounds, given)
        try:
            last, is_new = given[-1], len(given) == 1
            if not is_new:
                starter, last = await manager.a_resume(given, silent=True)
            result = await starter.a_initiate_chat(
                manager, clear_history=is_new, silent=silent, summary_method=self.summary_method, message=last
            )
        finally:
            release(manager)
        for message in result.chat_history:
            if message.get("name") == TEMPORARY_USER:
                del message["name"]
        return result, self.context_variables, manager.last_speaker

    def prepare_group_chat(
        self, max_rounds: int, messages: Sequence[Message]
    ) -> tuple[PatternManager, ConversableAgent]:
        """The manager of a new group chat in this process, and who says the first message.

        Args:
            max_rounds: How many messages it has at most.
            messages: How it begins.

        Raises:
            GroupChatDeclarationError: A target is not in the group, or the first message is of somebody who is not, or a
                user or a model is missing (a ValueError).
        """
        users = [self.user_agent] if self.user_agent is not None else []
        if not users and any((one.get("name") or TEMPORARY_USER) == TEMPORARY_USER for one in messages):
            users = [temporary_user()]
        manager = prepare(self._given({}), max_rounds, users)
        name = messages[0].get("name")
        if not name:
            return manager, users[0] if users else manager
        found = manager.groupchat.agent_by_name(name)
        if not isinstance(found, ConversableAgent):
            release(manager)
            raise GroupChatDeclarationError(f"The first message is of {name!r}, who is not in the group.")
        return manager, found

    def for_conversation(self) -> Self:
        """The same with copies of the agents, which remember nothing."""
        mine, twins = copy(self), {agent: twin_of(agent) for agent in [self.initial_agent, *self.everybody()]}
        for twin in twins.values():
            twin.part = None
        mine.initial_agent = twins[self.initial_agent]
        mine.agents = [twins[agent] for agent in self.members]
        mine.user_agent = None if self.user_agent is None else twins[self.user_agent]
        mine.context_variables = deepcopy(self.context_variables)
        return mine

    def _given(self, named: Mapping[str, Any]) -> Given:
        args = {**self.manager_args(), **named}
        if "groupchat" in args:
            raise GroupChatDeclarationError(
                "'groupchat' can't be in group_manager_args: the pattern makes it."
            )
        return Given(
            initial=self.initial_agent,
            agents=self.members,
            user=self.user_agent,
            manager_args=args,
            context_variables=self.context_variables,
            after_works=self.after_works(),
            group_after_work=self.group_after_work,
            hides_transits=self.exclude_transit_message,
        )


class DefaultPattern(Pattern):
    """A pattern in which the handoffs of the agents decide alone."""


def _messages(given: Sequence[Message] | str) -> list[Message]:
    messages = (
        [{"role": "user", "content": given}] if isinstance(given, str) else [dict(one) for one in given]
    )
    if not messages:
        raise GroupChatDeclarationError("A group chat begins with a message: there is none.")
    return messages


def _check_agents(agents: Sequence[object]) -> None:
    for agent in agents:
        if not isinstance(agent, ConversableAgent):
            raise GroupChatDeclarationError(
                f"A pattern is made of ConversableAgents, and not of a {type(agent).__name__}. Other chat agents hand over "
                "in teams: Swarm, or GraphFlow."
            )


class RoundRobinPattern(Pattern):
    """One agent after the other: the initial one, the others in their order, the user's, and from the beginning.

    It takes the place of what agents do after work; other handoffs go before it. See Pattern.
    """

    def after_works(self) -> Mapping[str, TransitionTarget]:
        """The next one."""
        others = [agent for agent in self.everybody() if agent is not self.initial_agent]
        order = [self.initial_agent, *others]
        return {
            agent.name: AgentTarget(after) for agent, after in zip(order, [*order[1:], order[0]], strict=True)
        }


class RandomPattern(Pattern):
    """Any agent but the one who spoke, the user's included.

    It takes the place of what agents do after work; other handoffs go before it. See Pattern.
    """

    def after_works(self) -> Mapping[str, TransitionTarget]:
        """Any other."""
        everybody = self.everybody()
        return {
            agent.name: RandomAgentTarget([other for other in everybody if other is not agent])
            for agent in everybody
        }


class AutoPattern(Pattern):
    """Where an agent does not hand over, the manager's model chooses who is next, by what the agents' descriptions say.

    Args:
        initial_agent: As for Pattern.
        agents: As for Pattern.
        user_agent: As for Pattern.
        group_manager_args: As for Pattern. Without "llm_config" the model of the first agent who has one chooses.
        context_variables: As for Pattern.
        selection_message: What the model is told last; None: as the group chat has it.
        exclude_transit_message: As for Pattern.
        summary_method: As for Pattern.
    """

    def __init__(
        self,
        initial_agent: ConversableAgent,
        agents: Sequence[ConversableAgent],
        user_agent: ConversableAgent | None = None,
        group_manager_args: Mapping[str, Any] | None = None,
        context_variables: ContextVariables | None = None,
        selection_message: GroupManagerSelectionMessage | None = None,
        exclude_transit_message: bool = True,
        summary_method: str | Callable[..., Any] | None = "last_msg",
    ) -> None:
        super().__init__(
            initial_agent,
            agents,
            user_agent,
            group_manager_args,
            context_variables,
            GroupManagerTarget(selection_message),
            exclude_transit_message,
            summary_method,
        )
        self.selection_message = selection_message

    def manager_args(self) -> Mapping[str, Any]:
        """For the manager, with a model.

        Raises:
            GroupChatDeclarationError: No agent has one (a ValueError).
        """
        if self.group_manager_args.get("llm_config"):
            return self.group_manager_args
        client = next((agent.client for agent in self.members if agent.client is not None), None)
        if client is None:
            raise GroupChatDeclarationError(
                "AutoPattern needs a model that chooses: group_manager_args={'llm_config': ...}, or one of an agent."
            )
        return {**self.group_manager_args, "llm_config": client}


class ManualPattern(Pattern):
    """A person chooses who is next, each time.

    It takes the place of what agents do after work; other handoffs go before it. On the bus the person answers from
    anywhere. For the arguments see Pattern.
    """

    def __init__(
        self,
        initial_agent: ConversableAgent,
        agents: Sequence[ConversableAgent],
        user_agent: ConversableAgent | None = None,
        group_manager_args: Mapping[str, Any] | None = None,
        context_variables: ContextVariables | None = None,
        exclude_transit_message: bool = True,
        summary_method: str | Callable[..., Any] | None = "last_msg",
    ) -> None:
        super().__init__(
            initial_agent,
            agents,
            user_agent,
            group_manager_args,
            context_variables,
            AskUserTarget(),
            exclude_transit_message,
            summary_method,
        )

    def after_works(self) -> Mapping[str, TransitionTarget]:
        """A person is asked."""
        return {agent.name: AskUserTarget() for agent in self.everybody()}


async def a_initiate_group_chat(
    pattern: Pattern,
    messages: Sequence[Message] | str,
    max_rounds: int = MAX_ROUNDS,
    *,
    silent: bool | None = False,
) -> tuple[ChatResult, ContextVariables, Agent | None]:
    """Let the agents of a pattern chat, in this process.

    Args:
        pattern: Who takes part, and how they hand over.
        messages: A text, which the user says; or messages, of which the last one is said, and the ones before it were.
        max_rounds: How many messages there are at most, the first one included.
        silent: Whether nothing is shown.

    Returns:
        What came of it, the context variables, and who spoke last.

    Raises:
        GroupChatDeclarationError: The pattern can't be, an agent is in a group chat that is under way, or the first message
            is of somebody who is not in the group (a ValueError).
    """
    if not isinstance(pattern, Pattern):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise GroupChatDeclarationError(
            f"A {type(pattern).__name__} is no pattern: write DefaultPattern(initial_agent, agents), or another one."
        )
    return await pattern.chat(messages, max_rounds, silent=silent)


def initiate_group_chat(
    pattern: Pattern,
    messages: Sequence[Message] | str,
    max_rounds: int = MAX_ROUNDS,
    *,
    silent: bool | None = False,
) -> tuple[ChatResult, ContextVariables, Agent | None]:
    """Let the agents of a pattern chat; see `a_initiate_group_chat`."""
    return wait_for(a_initiate_group_chat(pattern, messages, max_rounds, silent=silent))
