"""What is wrong with an answer, in a sentence that helps the model to a better one."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callboard.memory.llm_messages import (
    AssistantMessage,
    FunctionCall,
    FunctionExecutionResultMessage,
    LLMMessage,
    UserMessage,
)
from callboard.models.errors import BadResponseError

from .calls_in_text import any_call


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
        answered: calls since the last question that have their results.
    """

    known: frozenset[str]
    answered: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, messages: Sequence[LLMMessage], tools: Sequence[Mapping[str, Any]]) -> Conversation:
        """What these messages say."""
        calls = [call for message in messages for call in _calls_of(message)]
        known = frozenset({tool["name"] for tool in tools} | {call.name for call in calls})
        if not calls:
            return cls(known, frozenset())
        asked = max((at for at, one in enumerate(messages) if isinstance(one, UserMessage)), default=0)
        since = messages[asked:]
        done = {
            result.call_id
            for message in since
            if isinstance(message, FunctionExecutionResultMessage)
            for result in message.content
            if not result.is_error
        }
        answered = (call for message in since for call in _calls_of(message) if call.id in done)
        return cls(known, frozenset(_identity(call) for call in answered))

    def repeated(self, model: str, calls: Sequence[FunctionCall]) -> Objection | None:
        """Calls all of which have their results already: a small model goes round in circles; None: they have not."""
        if not self.answered.issuperset(_identity(call) for call in calls):
            return None
        names = ", ".join(dict.fromkeys(call.name for call in calls))
        sentence = f"You have the result of {names} already, see above. Answer my question with it, in words."
        return Objection(BadResponseError(model, f"{names} was called again"), sentence, ends_calls=True)

    def stray_call(self, model: str, text: str, offered: Collection[str]) -> Objection | None:
        """A text that is nothing but a call, of a tool that can't be called now; None: it is something else."""
        call = any_call(text) if self.known else None
        if call is None:
            return None
        if not offered:
            sentence = "You can't call a tool now. Answer my question in words, with what you know."
            error = BadResponseError(model, f"the answer is a call of {call.name}, and no tool was offered")
            return Objection(error, sentence, ends_calls=True)
        names = ", ".join(sorted(offered))
        error = BadResponseError(model, f"the answer is a call of {call.name}, and there are only {names}")
        return Objection(
            error, f"There is no tool {call.name}, only {names}. Call one of these, or answer in words."
        )


def _calls_of(message: LLMMessage) -> Sequence[FunctionCall]:
    if isinstance(message, AssistantMessage) and not isinstance(message.content, str):
        return message.content
    return ()


def _identity(call: FunctionCall) -> tuple[str, str]:
    return call.name, json.dumps(_loaded(call.arguments), sort_keys=True)


def _loaded(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
