"""Who is next in a pattern: one rule, which looks at nothing but what it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from callboard.groupchat.agent import Message
from callboard.groupchat.context_variables import ContextVariables
from callboard.groupchat.errors import SpeakerSelectionError
from callboard.groupchat.handoffs.conditions import Known
from callboard.groupchat.handoffs.function_target import FunctionTarget
from callboard.groupchat.handoffs.loading import load_target
from callboard.groupchat.handoffs.on_condition import OnContextCondition
from callboard.groupchat.handoffs.part import NEXT_TARGET, is_met
from callboard.groupchat.handoffs.target import TransitionTarget

from .executor import EXECUTOR


@dataclass(frozen=True)
class Plan:
    """What the rule has to know of a pattern; the same for all its chats.

    Attributes:
        initial: Who speaks first.
        agents: Who takes part, the helpers included; not the user, and not the executor.
        user: The user's agent; None: there is none.
        after_works: What is done when somebody has spoken, by name.
        group_after_work: What is done else.
        functions: The functions that may decide, by name.
    """

    initial: str
    agents: tuple[str, ...]
    user: str | None
    after_works: Mapping[str, Sequence[OnContextCondition]]
    group_after_work: TransitionTarget
    functions: Mapping[str, FunctionTarget]


@dataclass(frozen=True)
class Speaks:
    """Somebody speaks."""

    name: str


@dataclass(frozen=True)
class HandsOver:
    """Somebody hands over.

    Attributes:
        target: To whom.
        current: Who hands over.
    """

    target: TransitionTarget
    current: str


@dataclass(frozen=True)
class Situation:
    """Where a chat stands.

    Attributes:
        messages: What was said.
        last_speaker: Who spoke last.
        has_begun: Whether anybody of the group was chosen before.
        context_variables: What the agents share.
    """

    messages: Sequence[Message]
    last_speaker: str
    has_begun: bool
    context_variables: ContextVariables


def next_step(plan: Plan, at: Situation) -> Speaks | HandsOver:
    """Who is next, by the first of these that says so.

    1. The initial agent speaks first. 2. What was called is executed. 3. A function, or a condition on context variables,
    has named a target. 4. After functions, the agent who called them. 5. After the user, the agent who spoke before,
    unless the user has something to do after work. 6. What the agent does after work: the first that is available and
    met. 7. What the group does after work.

    Raises:
        SpeakerSelectionError: Nobody of the group has spoken (a ValueError).
        HandoffError: What a function named is no target (a ValueError).
    """
    last = at.messages[-1] if at.messages else {}
    if not at.has_begun:
        return Speaks(plan.initial)
    if last.get("tool_calls"):
        return Speaks(EXECUTOR)
    current = _last_agent(plan, at.messages)
    is_outside = at.last_speaker not in (*plan.agents, EXECUTOR)
    # guard: who is outside the group names no target
    if NEXT_TARGET in last and not is_outside:
        return HandsOver(load_target(last[NEXT_TARGET], plan.functions), current)
    if last.get("role") == "tool":
        return Speaks(current)
    if is_outside:
        if plan.user is None or not plan.after_works.get(plan.user):
            return Speaks(current)
        current = plan.user
    return HandsOver(_after_work(plan, at, current), current)


def _last_agent(plan: Plan, messages: Sequence[Message]) -> str:
    for message in reversed(messages):
        name = message.get("name")
        if name in plan.agents:
            return str(name)
    raise SpeakerSelectionError("Nobody of the group has spoken, and so nobody can go on.")


def _after_work(plan: Plan, at: Situation, current: str) -> TransitionTarget:
    agent = Known(current, at.context_variables)
    for one in plan.after_works.get(current, ()):
        if is_met(one, agent, at.messages):
            return one.target
    return plan.group_after_work
