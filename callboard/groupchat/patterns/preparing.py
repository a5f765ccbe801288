"""A pattern becomes a group chat."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from callboard.groupchat.context_variables import ContextVariables
from callboard.groupchat.conversable import ConversableAgent
from callboard.groupchat.errors import HandoffError
from callboard.groupchat.handoffs.agent_targets import AgentTarget
from callboard.groupchat.handoffs.function_target import FunctionTarget
from callboard.groupchat.handoffs.manager_target import GroupManagerTarget
from callboard.groupchat.handoffs.on_condition import OnCondition, OnContextCondition
from callboard.groupchat.handoffs.other_targets import RevertToUserTarget
from callboard.groupchat.handoffs.part import Part
from callboard.groupchat.handoffs.target import TransitionTarget, not_by_itself
from callboard.groupchat.peer import Peer

from .chat import NoHelpers, PatternChat
from .executor import GroupToolExecutor, abilities_of
from .helpers import helper_for
from .manager import PatternManager
from .rule import Plan

TEMPORARY_USER: Final = "_User"
NOT_IN_TOOL_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]")  # of OpenAI, at most 64 characters
LONGEST_TARGET: Final = 48  # characters

C = TypeVar("C", OnCondition, OnContextCondition)


@dataclass(frozen=True)
class Given:
    """What a pattern is made of.

    Attributes:
        initial: Who speaks first.
        agents: Who takes part.
        user: The user's agent; None: there is none.
        manager_args: For the manager.
        context_variables: What the agents share.
        after_works: What is done when somebody has spoken, by name, instead of what the agents say themselves.
        group_after_work: What is done else.
        hides_transits: Whether nobody sees the calls of tools that hand over.
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
    """What one agent hands over by, with helpers in the places of the targets that need one."""

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
        HandoffError: A target is not in the group, or needs a user or a model that is not there, or two tools or functions
            have one name (a ValueError).
    """
    helpers: list[ConversableAgent] = []
    owners = [*given.agents, *([] if given.user is None else [given.user])]
    conditions = {agent.name: _conditions(agent, given, helpers) for agent in owners}
    for helper in helpers:
        conditions[helper.name] = _Conditions({}, [], helper.handoffs.after_works)
    agents = [*given.agents, *helpers]
    _check(given, conditions, [one.name for one in (*agents, *users)])
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
    for agent in _peers(manager):
        own = conditions[agent.name] if agent in given.agents else None
        agent.part = Part({}) if own is None else Part(own.llm, own.context, hidden)
        agent.context_variables = given.context_variables


def release(manager: PatternManager) -> None:
    """Nobody has a part any more: agents may chat elsewhere."""
    for agent in _peers(manager):
        agent.part = None


def _peers(manager: PatternManager) -> Iterable[Peer]:
    return (agent for agent in manager.groupchat.agents if isinstance(agent, Peer))


def _conditions(agent: ConversableAgent, given: Given, helpers: list[ConversableAgent]) -> _Conditions:
    """What an agent hands over by; helpers that it needs are added."""
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
    taken = sorted({*tools} & {*agent.function_map, *(getattr(tool, "name", "") for tool in agent.llm_tools)})
    if taken or len(tools) < len(llm):
        raise HandoffError(
            f"{agent.name!r} has two tools of one name, of which one hands over: {taken or list(tools)}."
        )
    return _Conditions(
        tools,
        context,
        [helped(one) for one in after],
    )


def _tool_name(one: OnCondition, number: int) -> str:
    """What an API takes as the name of a tool, unless the user has given another one."""
    target = NOT_IN_TOOL_NAMES.sub("_", one.target.normalized_name())[:LONGEST_TARGET]
    return one.llm_function_name or f"transfer_to_{target}_{number}"


def _plan(
    given: Given,
    agents: Sequence[ConversableAgent],
    conditions: Mapping[str, _Conditions],
) -> Plan:
    targets = [given.group_after_work, *(target for one in conditions.values() for target in one.targets)]
    return Plan(
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
            raise HandoffError(f"Two functions that decide have the name {target.fn_name!r}: rename one.")
    return found


def _check(given: Given, conditions: Mapping[str, _Conditions], names: Sequence[str]) -> None:
    if given.initial.name not in names:
        raise HandoffError(
            f"The initial agent {given.initial.name!r} has to be one of the agents: {list(names)}."
        )
    if given.group_after_work.needs_agent_wrapper():
        raise not_by_itself(given.group_after_work)
    has_model = bool(given.manager_args.get("llm_config"))
    for owner, target in _all_targets(given, conditions):
        strangers = [name for name in target.names() if name not in names]
        if strangers:
            raise HandoffError(
                f"{owner} hands over to {strangers[0]!r}, who has to be one of the agents: {list(names)}."
            )
        if isinstance(target, RevertToUserTarget) and given.user is None:
            raise HandoffError(f"{owner} hands over to the user: give the pattern a user_agent.")
        if isinstance(target, GroupManagerTarget) and not has_model:
            raise HandoffError(
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
    """Somebody who says the first message where there is no user; a person answers for it."""
    return ConversableAgent(TEMPORARY_USER, human_input_mode="ALWAYS", description="The user.")
