"""Handoffs in an answer of a model: which one is taken, what the others are told, and what goes along."""

from __future__ import annotations

import inspect
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from callboard.agents.handoff import Handoff, HandoffInput
from callboard.memory.llm_messages import (
    AssistantMessage,
    FunctionCall,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
)
from callboard.messages.chat import HandoffMessage


@dataclass(frozen=True, slots=True)
class Taken:
    """The handoff of an answer.

    Attributes:
        handoff: The handoff.
        number: Which of the calls asked for it, from 0.
    """

    handoff: Handoff
    number: int


def first_handoff(
    calls: Sequence[FunctionCall], handoffs: Mapping[str, Handoff], refused: Container[int]
) -> Taken | None:
    """The first handoff among calls; None: there is none.

    Args:
        calls: The calls.
        handoffs: By their names.
        refused: Numbers of calls that are not made.
    """
    for number, call in enumerate(calls):
        if call.name in handoffs and number not in refused:
            return Taken(handoffs[call.name], number)
    return None


def settled(
    calls: Sequence[FunctionCall], handoffs: Mapping[str, Handoff], taken: Taken | None
) -> dict[int, FunctionExecutionResult]:
    """The results of handoffs, by the numbers of their calls, as far as nothing has to be run for them.

    The model is told which one was taken. AutoGen says that it made all of them.
    """
    found: dict[int, FunctionExecutionResult] = {}
    if taken is None:
        return found
    for number, call in enumerate(calls):
        if call.name not in handoffs:
            continue
        if number != taken.number:
            found[number] = _result(call, _not_taken(taken.handoff), is_error=True)
        elif type(taken.handoff).handoff_tool is Handoff.handoff_tool:
            found[number] = _result(call, taken.handoff.message, is_error=False)
    return found


def _not_taken(handoff: Handoff) -> str:
    return f"Not done: there can be only one handoff at a time, and the conversation was handed over to {handoff.target}."


def _result(call: FunctionCall, content: str, *, is_error: bool) -> FunctionExecutionResult:
    return FunctionExecutionResult(content=content, name=call.name, call_id=call.id, is_error=is_error)


async def handoff_message(
    taken: Taken,
    along: Sequence[LLMMessage],
    seen: Sequence[LLMMessage],
    result: FunctionExecutionResult,
    source: str,
) -> HandoffMessage:
    """What hands the conversation over.

    Args:
        taken: The handoff.
        along: What goes along, see `along_with`.
        seen: What the model saw, for an input filter.
        result: Of the handoff.
        source: Who hands over.
    """
    handoff = taken.handoff
    if handoff.input_filter is not None:
        chosen = handoff.input_filter(HandoffInput(handoff.target, along, seen))
        along = await chosen if inspect.isawaitable(chosen) else chosen
    return HandoffMessage(
        content=handoff.message if result.is_error else result.content,
        target=handoff.target,
        source=source,
        context=list(along),
    )


def along_with(
    calls: Sequence[FunctionCall],
    results: Sequence[FunctionExecutionResult],
    handoffs: Mapping[str, Handoff],
    thought: str | None,
    source: str,
) -> list[LLMMessage]:
    """What goes along with a handoff: the other calls of the answer and their results, or the thought alone."""
    others = [
        (call, result) for call, result in zip(calls, results, strict=True) if call.name not in handoffs
    ]
    if others:
        asked = AssistantMessage(content=[call for call, _ in others], source=source, thought=thought)
        return [asked, FunctionExecutionResultMessage(content=[result for _, result in others])]
    return [AssistantMessage(content=thought, source=source)] if thought else []
