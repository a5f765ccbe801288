"""An agent's part in a group that hands over: what its model is offered, and when it hands over by itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from callboard.groupchat.agent import Message
from callboard.groupchat.errors import ExpressionError, MissingVariableError
from callboard.groupchat.events import ConditionNotMetEvent
from callboard.groupchat.stream import IOStream

from .conditions import Knowing
from .on_condition import OnCondition, OnContextCondition

log = logging.getLogger(__name__)

NEXT_TARGET: Final = "next_target"
"""Where a message has the target that is next, as plain data."""

HANDING_OVER: Final = "[Handing off to {name}]"
NO_ARGUMENTS: Final[Mapping[str, Any]] = {"type": "object", "properties": {}, "required": []}


@dataclass(frozen=True)
class Part:
    """An agent's part; it never changes.

    Attributes:
        transfers: By the name of the tool, how its model hands over.
        context_conditions: How context variables do, before its model is asked.
        hidden: The tools by which anybody hands over, of which it sees no calls.
    """

    transfers: Mapping[str, OnCondition]
    context_conditions: Sequence[OnContextCondition] = ()
    hidden: frozenset[str] = frozenset()

    def __deepcopy__(self, memo: dict[int, Any]) -> Part:
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
        """What the agent says instead of an answer, because of the context variables; None: it answers."""
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
    """Whether somebody is handed over to now."""
    condition = one.condition
    if not is_available(one, agent, messages):
        return False
    return condition is None or _said(lambda: condition.evaluate(agent.context_variables), agent)


def _said(condition: Callable[[], bool], agent: Knowing) -> bool:
    """What a condition says; one whose variables are not there, or can't be compared, is not met, and an event says so.

    In AG2 that ends the run.
    """
    try:
        return bool(condition())
    except (MissingVariableError, ExpressionError) as error:
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
