"""Handoffs as tools that models call, and the one that is taken from an answer."""

from __future__ import annotations

import inspect
import re
import unicodedata
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from callboard.memory.llm_messages import (
    AssistantMessage,
    FunctionCall,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
)
from callboard.messages.chat import HandoffMessage
from callboard.tools.function import FunctionTool

MAX_NAME: Final = 64  # characters; the limit of OpenAI's API


@dataclass(frozen=True, slots=True)
class HandoffInput:
    """The messages that an input filter chooses from.

    Attributes:
        target: Name of the agent who goes on.
        along: What goes along without a filter: the other calls of the model's answer, with their results.
        seen: What the model saw of the conversation when it chose to hand over, without the system message.
    """

    target: str
    along: Sequence[LLMMessage]
    seen: Sequence[LLMMessage]


InputFilter: TypeAlias = Callable[[HandoffInput], Sequence[LLMMessage] | Awaitable[Sequence[LLMMessage]]]
"""Chooses the messages that go along with a handoff. In a handler it has to return the same in every attempt."""


def default_name(target: str) -> str:
    """The name of the tool that hands over to an agent, in ASCII and of at most 64 characters."""
    plain = unicodedata.normalize("NFKD", f"transfer_to_{target}").encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9_]+", "_", plain).lower()[:MAX_NAME]


class Handoff(BaseModel):
    """Hands the conversation over to an agent: what a model reads about it, and what is said then.

    Attributes:
        target: Name of the agent who goes on.
        description: When to do it, for the model; "": "Handoff to <target>."
        name: Name of the tool; "": ``transfer_to_<target>`` in lower case, as far as tools can have that name: AutoGen
            makes "transfer_to_my agent" of "My Agent", which servers refuse.
        message: What is said; "": that the target takes over.
        input_filter: Chooses what the target's model gets to know beside `message`: the `context` of the HandoffMessage.
            What the members of a team hear from each other is not touched by it. It is not dumped. AutoGen has none.
    """

    model_config = ConfigDict(frozen=True)

    target: str
    description: str = Field(default="")
    name: str = Field(default="")
    message: str = Field(default="")
    input_filter: SkipJsonSchema[InputFilter | None] = Field(default=None, exclude=True, repr=False)

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any) -> Any:
        if not isinstance(given, dict) or not isinstance(given.get("target"), str):
            return given
        target = given["target"]
        usual = {
            "description": f"Handoff to {target}.",
            "name": default_name(target),
            "message": f"Transferred to {target}, adopting the role of {target} immediately.",
        }
        completed = {**given, **{field: text for field, text in usual.items() if not given.get(field)}}
        if isinstance(completed["name"], str) and not completed["name"].isidentifier():
            raise ValueError(f"Handoff name must be a valid identifier, not {completed['name']!r}.")
        return completed

    @property
    def handoff_tool(self) -> FunctionTool:
        """The tool that a model calls to hand over; it takes nothing and returns `message`."""

        def hand_over() -> str:
            return self.message

        return FunctionTool(hand_over, name=self.name, description=self.description, strict=True)


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
    """The handoff that a turn ends with.

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
    """Messages that go along with a handoff: the other calls of the answer and their results, or the thought alone."""
    others = [
        (call, result) for call, result in zip(calls, results, strict=True) if call.name not in handoffs
    ]
    if others:
        asked = AssistantMessage(content=[call for call, _ in others], source=source, thought=thought)
        return [asked, FunctionExecutionResultMessage(content=[result for _, result in others])]
    return [AssistantMessage(content=thought, source=source)] if thought else []
