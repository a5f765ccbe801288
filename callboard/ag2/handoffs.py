"""Handoffs of an agent: the interface of targets, conditions for them, and the agent's part in a group that hands over."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar

from callboard.groupchat.context_variables import ContextVariables
from callboard.groupchat.errors import GroupChatDeclarationError
from callboard.groupchat.events import ChatEvent, IOStream
from callboard.groupchat.messages import Message
from callboard.groupchat.replies import GroupPart

from .conditions import AvailableCondition, ContextCondition, ExpressionError, Knowing, LLMCondition

log = logging.getLogger(__name__)

KIND = "kind"


@dataclass(frozen=True)
class SpeakerSelectionResult:
    """The meaning of a target.

    Attributes:
        terminate: Whether no agent is next: the chat is over.
        agent_name: Who is next.
        speaker_selection_method: How it is chosen who is: "auto" or "manual".
        prompt: What the model that chooses is told last; None: as usual.
    """

    terminate: bool | None = None
    agent_name: str | None = None
    speaker_selection_method: str | None = None
    prompt: str | None = None


@dataclass(frozen=True)
class Whereabouts:
    """Where a chat stands when a target is looked at.

    Attributes:
        current: Name of the agent who hands over.
        user: Name of the user's agent; None: there is none.
        context_variables: What the agents of the chat share.
    """

    current: str
    user: str | None
    context_variables: ContextVariables


class TransitionTarget(ABC):
    """Who is next, for conditions, for what is done after work, and for what functions return.

    A target that a function returns travels in a message as plain data, so that it reaches the manager in another process.
    """

    kind: ClassVar[str]
    """Names the class in this data."""

    @abstractmethod
    def resolve(self, at: Whereabouts) -> SpeakerSelectionResult:
        """Who is next.

        Raises:
            GroupChatDeclarationError: No agent can be (a ValueError).
        """
        ...

    @abstractmethod
    def display_name(self) -> str:
        """For people."""
        ...

    def normalized_name(self) -> str:
        """A part of the name of the tool that hands over."""
        return self.display_name()

    def needs_agent_wrapper(self) -> bool:
        """Whether a helper agent does it, who returns to the one who handed over."""
        return False

    def names(self) -> list[str]:
        """The agents that it names; they have to be in the group."""
        return []

    def dump(self) -> dict[str, Any]:
        """As plain data.

        Raises:
            GroupChatDeclarationError: It can't be (a ValueError).
        """
        return {KIND: self.kind}

    def __str__(self) -> str:
        return f"Transfer to {self.display_name()}"


def not_by_itself(target: TransitionTarget) -> GroupChatDeclarationError:
    """A target that is for conditions of agents was given elsewhere."""
    return GroupChatDeclarationError(
        f"{type(target).__name__} is for the handoffs of an agent, which returns to it: give it to an OnCondition, an "
        "OnContextCondition or set_after_work of that agent."
    )


@dataclass(frozen=True)
class OnCondition:
    """The agent's model decides: it gets a tool that hands over.

    Args:
        target: Who is handed over to.
        condition: Tells the model when.
        available: Whether the tool is there at all, at each turn; None: always.
        llm_function_name: Name of the tool; None: ``transfer_to_<target>_<number>``.

    Raises:
        GroupChatDeclarationError: The target or a condition is none (a TypeError and a ValueError).
    """

    target: TransitionTarget
    condition: LLMCondition
    available: AvailableCondition | None = None
    llm_function_name: str | None = None

    def __post_init__(self) -> None:
        check_target(self.target)
        if not isinstance(self.condition, LLMCondition):  # pyright: ignore[reportUnnecessaryIsInstance] - programs without types
            raise GroupChatDeclarationError(
                "The condition of an OnCondition tells a model when: StringLLMCondition('...')."
            )
        _check_available(self.available)


@dataclass(frozen=True)
class OnContextCondition:
    """Context variables decide, before the agent's model is asked.

    Args:
        target: Who is handed over to.
        condition: Whether; None: always.
        available: Whether it is looked at; None: always.

    Raises:
        GroupChatDeclarationError: The target or a condition is none (a TypeError and a ValueError).
    """

    target: TransitionTarget
    condition: ContextCondition | None = None
    available: AvailableCondition | None = None

    def __post_init__(self) -> None:
        check_target(self.target)
        if self.condition is not None and not isinstance(self.condition, ContextCondition):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise GroupChatDeclarationError(
                "The condition of an OnContextCondition looks at variables: StringContextCondition('...') or "
                "ExpressionContextCondition(ContextExpression('...'))."
            )
        _check_available(self.available)


def _check_available(available: object) -> None:
    if available is not None and not isinstance(available, AvailableCondition):
        raise GroupChatDeclarationError(
            "What is available is said by a condition: StringAvailableCondition('...') or "
            "ExpressionAvailableCondition(ContextExpression('...'))."
        )


def check_target(target: object) -> None:
    """Refuse what is no target.

    Raises:
        GroupChatDeclarationError: It is none (a TypeError and a ValueError).
    """
    if not isinstance(target, TransitionTarget):
        raise GroupChatDeclarationError(f"A {type(target).__name__} is no target: write AgentTarget(agent).")


def check_variables(variables: object) -> None:
    """Refuse what are no context variables that change; None: none do.

    Raises:
        GroupChatDeclarationError: They are none (a TypeError and a ValueError).
    """
    if variables is not None and not isinstance(variables, Mapping):
        raise GroupChatDeclarationError(
            f"A {type(variables).__name__} can't change variables: write ContextVariables({{'name': value}})."
        )


T = TypeVar("T")


class Handoffs:
    """Conditions by which an agent of a pattern hands over. Methods return it, so that calls can be chained.

    Attributes:
        llm_conditions: By its model's decision.
        context_conditions: By context variables, before its model is asked.
        after_works: When it has spoken: the first that is available and met; one without a condition is the last.
    """

    def __init__(
        self,
        context_conditions: Iterable[OnContextCondition] = (),
        llm_conditions: Iterable[OnCondition] = (),
        after_works: Iterable[OnContextCondition] = (),
    ) -> None:
        self.context_conditions = list(context_conditions)
        self.llm_conditions = list(llm_conditions)
        self.after_works: list[OnContextCondition] = []
        self.add_after_works(list(after_works))

    def __deepcopy__(self, memo: dict[int, Any]) -> Handoffs:
        """For another conversation: conditions never change."""
        return Handoffs(self.context_conditions, self.llm_conditions, self.after_works)

    def add_context_condition(self, condition: OnContextCondition) -> Handoffs:
        """Hand over by context variables."""
        return self.add_context_conditions([condition])

    def add_context_conditions(self, conditions: Sequence[OnContextCondition]) -> Handoffs:
        """Hand over by context variables.

        Raises:
            GroupChatDeclarationError: One is no OnContextCondition (a TypeError and a ValueError).
        """
        self.context_conditions.extend(_checked(conditions, OnContextCondition))
        return self

    def add_llm_condition(self, condition: OnCondition) -> Handoffs:
        """Hand over by the model's decision."""
        return self.add_llm_conditions([condition])

    def add_llm_conditions(self, conditions: Sequence[OnCondition]) -> Handoffs:
        """Hand over by the model's decision.

        Raises:
            GroupChatDeclarationError: One is no OnCondition (a TypeError and a ValueError).
        """
        self.llm_conditions.extend(_checked(conditions, OnCondition))
        return self

    def set_after_work(self, target: TransitionTarget) -> Handoffs:
        """Who is next when the agent has spoken and does not hand over; it takes the place of all that were set before.

        Raises:
            GroupChatDeclarationError: It is no target (a TypeError and a ValueError).
        """
        check_target(target)
        self.after_works = [OnContextCondition(target)]
        return self

    def add_after_work(self, condition: OnContextCondition) -> Handoffs:
        """One more. Without a condition it takes the place of the one that has none."""
        _checked([condition], OnContextCondition)
        others = [one for one in self.after_works if one.condition is not None]
        last = [one for one in self.after_works if one.condition is None]
        self.after_works = [*others, condition, *([] if condition.condition is None else last)]
        return self

    def add_after_works(self, conditions: Sequence[OnContextCondition]) -> Handoffs:
        """Several more.

        Raises:
            GroupChatDeclarationError: One is no OnContextCondition, or several have no condition (a TypeError and a
                ValueError).
        """
        if sum(one.condition is None for one in _checked(conditions, OnContextCondition)) > 1:
            raise GroupChatDeclarationError(
                "Only one after-work condition can be without a condition: it is what else happens."
            )
        for condition in conditions:
            self.add_after_work(condition)
        return self

    def add(self, condition: OnCondition | OnContextCondition) -> Handoffs:
        """A condition of either kind."""
        return self.add_many([condition])

    def add_many(self, conditions: Sequence[OnCondition | OnContextCondition]) -> Handoffs:
        """Conditions of either kind.

        Raises:
            GroupChatDeclarationError: One is no condition (a TypeError and a ValueError).
        """
        for condition in conditions:
            if isinstance(condition, OnCondition):
                self.add_llm_condition(condition)
            else:
                self.add_context_condition(condition)
        return self

    def clear(self) -> Handoffs:
        """Hand over no more."""
        self.context_conditions.clear()
        self.llm_conditions.clear()
        self.after_works.clear()
        return self


def _checked(conditions: Sequence[Any], kind: type[T]) -> Sequence[T]:
    for condition in conditions:
        if not isinstance(condition, kind):
            raise GroupChatDeclarationError(
                f"A {type(condition).__name__} was given, where {kind.__name__} is needed."
            )
    return conditions


NEXT_TARGET: Final = "next_target"
"""Where a message has the target that is next, as plain data."""

HANDING_OVER: Final = "[Handing off to {name}]"
NO_ARGUMENTS: Final[Mapping[str, Any]] = {"type": "object", "properties": {}, "required": []}


@dataclass(frozen=True)
class ConditionNotMetEvent(ChatEvent):
    """A condition is not met, because its context variables are not there or can't be compared. In AG2 the run ends then.

    Attributes:
        agent: Who would have handed over.
        reason: What is wrong.
    """

    type: ClassVar[str] = "condition_not_met"

    agent: str
    reason: str

    @property
    def text(self) -> str:
        """The reason."""
        return f"{self.agent} does not hand over: {self.reason}"


@dataclass(frozen=True)
class HandoffPart(GroupPart):
    """An agent's part; it never changes.

    Attributes:
        transfers: By the name of the tool, how its model hands over.
        context_conditions: How context variables do, before its model is asked.
        hidden: The tools by which anybody hands over, of which it sees no calls.
    """

    transfers: Mapping[str, OnCondition]
    context_conditions: Sequence[OnContextCondition] = ()
    hidden: frozenset[str] = frozenset()

    def __deepcopy__(self, memo: dict[int, Any]) -> HandoffPart:
        """For another conversation: it never changes."""
        return self

    def seen(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages without the calls of tools that hand over, and their results."""
        return without_calls(messages, self.hidden) if self.hidden else messages

    def tools(self, agent: Knowing, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """The tools that hand over and are available now, for the agent's model."""
        return [
            {
                "name": name,
                "description": one.condition.get_prompt(agent, messages),
                "parameters": dict(NO_ARGUMENTS),
            }
            for name, one in self.transfers.items()
            if is_available(one, agent, messages)
        ]

    def hand_over(self, agent: Knowing, messages: Sequence[Message]) -> Message | None:
        """The message instead of an answer, because of the context variables; None: the agent answers."""
        for one in self.context_conditions:
            if is_met(one, agent, messages):
                text = HANDING_OVER.format(name=one.target.display_name())
                return {"role": "assistant", "content": text, NEXT_TARGET: one.target.dump()}
        return None


def is_available(one: OnCondition | OnContextCondition, agent: Knowing, messages: Sequence[Message]) -> bool:
    """Whether a handoff is there now."""
    available = one.available
    return available is None or _said(lambda: available.is_available(agent, messages), agent)


def is_met(one: OnContextCondition, agent: Knowing, messages: Sequence[Message]) -> bool:
    """Whether a condition hands over now."""
    condition = one.condition
    if not is_available(one, agent, messages):
        return False
    return condition is None or _said(lambda: condition.evaluate(agent.context_variables), agent)


def _said(condition: Callable[[], bool], agent: Knowing) -> bool:
    """The value of a condition; one whose variables are not there, or can't be compared, is not met, and an event says so.

    In AG2 that ends the run.
    """
    try:
        return bool(condition())
    except ExpressionError as error:
        log.warning("a condition of the agent %s is not met: %s", agent.name, type(error).__name__)
        IOStream.get_default().send(ConditionNotMetEvent(agent.name, str(error)))
        return False


def without_calls(messages: Sequence[Message], names: frozenset[str]) -> list[Message]:
    """Messages without the calls of some tools, and without their results; one that has nothing else is left out."""
    ids: set[str] = set()
    kept = []
    for message in messages:
        if message.get("tool_calls") is not None:
            seen = _without_calls(message, names, ids)
        elif message.get("tool_responses") is not None:
            seen = _without_responses(message, ids)
        else:
            seen = message
        if seen is not None:
            kept.append(seen)
    return kept


def _without_calls(message: Message, names: frozenset[str], ids: set[str]) -> Message | None:
    calls = [call for call in message["tool_calls"] if call["function"]["name"] not in names]
    # Results come with the next message; later calls may have the same ids.
    ids.clear()
    ids.update(str(call.get("id", "")) for call in message["tool_calls"] if call not in calls)
    if calls:
        return {**message, "tool_calls": calls}
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return rest if rest.get("content") not in (None, "", "None") else None


def _without_responses(message: Message, ids: set[str]) -> Message | None:
    left = [one for one in message["tool_responses"] if str(one.get("tool_call_id", "")) not in ids]
    return {**message, "tool_responses": left} if left else None
