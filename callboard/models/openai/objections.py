"""What is wrong with an answer, in a sentence that helps the model to a better one."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from callboard.memory.llm_messages import (
    AssistantMessage,
    FunctionCall,
    FunctionExecutionResultMessage,
    LLMMessage,
    UserMessage,
)
from callboard.models.errors import BadResponseError

from .calls_in_text import any_call, loaded

LONGEST_RESULT: Final = 500  # characters of a result that are told again; all of it stands above
Identity = tuple[str, str]  # of a call: name and arguments


@dataclass(frozen=True, slots=True)
class Objection:
    """A reason to ask again.

    Attributes:
        error: raised when the model is not asked again, and the answer is not usable.
        sentence: for the model.
        ends_calls: whether it is not to call a tool now, so that none is offered.
    """

    error: BadResponseError
    sentence: str
    ends_calls: bool = False


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a conversation says about calls.

    Attributes:
        known: names of tools that the model knows of: those of this request, and those that it called before.
        answered: calls since the last question -> their results.
    """

    known: frozenset[str]
    answered: Mapping[Identity, str]

    @classmethod
    def of(cls, messages: Sequence[LLMMessage], tools: Sequence[Mapping[str, Any]]) -> Conversation:
        """What these messages say."""
        calls = [call for message in messages for call in _calls_of(message)]
        known = frozenset({tool["name"] for tool in tools} | {call.name for call in calls})
        asked = max((at for at, one in enumerate(messages) if isinstance(one, UserMessage)), default=0)
        results = {
            result.call_id: result.content
            for message in messages[asked:]
            if isinstance(message, FunctionExecutionResultMessage)
            for result in message.content
        }
        return cls(known, {_identity(call): results[call.id] for call in calls if call.id in results})

    def new(self, calls: Sequence[FunctionCall]) -> tuple[FunctionCall, ...]:
        """Those calls that have no result yet: small models repeat the others, and would go round in circles."""
        return tuple(call for call in calls if _identity(call) not in self.answered)

    def repeated(self, model: str, calls: Sequence[FunctionCall]) -> Objection:
        """The objection to calls of which at least one has its result."""
        known = [call for call in calls if _identity(call) in self.answered]
        results = {call.name: self.answered[_identity(call)] for call in known}
        told = " ".join(
            f"The result of {name} is: {text[:LONGEST_RESULT]}." for name, text in results.items()
        )
        error = BadResponseError(model, f"{', '.join(results)} was called again")
        return Objection(error, f"{told} Now answer my question with it, in words.", ends_calls=True)

    def stray_call(self, model: str, text: str, offered: Collection[str]) -> Objection | None:
        """A text that is nothing but a call, of a tool that can't be called now; None: it is something else."""
        call = any_call(text) if self.known else None
        if call is None:
            return None
        if not offered:
            return unoffered_call(model, call)
        names = ", ".join(sorted(offered))
        error = BadResponseError(model, f"the answer is a call of {call.name}, and there are only {names}")
        return Objection(
            error, f"There is no tool {call.name}, only {names}. Call one of these, or answer in words."
        )


def unoffered_call(model: str, call: FunctionCall) -> Objection:
    """The objection to a call where none can be made."""
    sentence = "You can't call a tool now. Answer my question in words, with what you know."
    error = BadResponseError(model, f"the answer is a call of {call.name}, and no tool was offered")
    return Objection(error, sentence, ends_calls=True)


def _calls_of(message: LLMMessage) -> Sequence[FunctionCall]:
    if isinstance(message, AssistantMessage) and not isinstance(message.content, str):
        return message.content
    return ()


def _identity(call: FunctionCall) -> tuple[str, str]:
    return call.name, json.dumps(loaded(call.arguments), sort_keys=True)
