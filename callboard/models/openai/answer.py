"""The answer of a server, in one form for whole answers and for streams."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from callboard.memory.llm_messages import FunctionCall
from callboard.models.types import ChatCompletionTokenLogprob, RequestUsage

from .wire import WireAnswer, WireCharge, WireChoice, WireFunction, WireUsage, as_tool_name

NOTHING_USED: Final = RequestUsage(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer before anything is read into it.

    Attributes:
        text: said by the model.
        reasoning: from a field of its own.
        refusal: why the model won't answer.
        calls: the tool calls of the API.
        finish: the server's word for why it ended; None: it did not say.
        usage: tokens; zeros when the server did not count.
    """

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: tuple[FunctionCall, ...] = ()
    finish: str | None = None
    usage: RequestUsage = NOTHING_USED
    logprobs: tuple[ChatCompletionTokenLogprob, ...] | None = None


class ReportedError(Exception):
    """An error that came with status 200 (OpenRouter does that)."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


def whole_answer(body: bytes | str) -> Answer | None:
    """Read the body of a response.

    Returns:
        The first choice; None when there is none.

    Raises:
        pydantic.ValidationError: it is no JSON, or no answer of a chat.
        ReportedError: it is an error.
    """
    read = WireAnswer.model_validate_json(body)
    if read.error is not None:
        raise ReportedError(str(read.error.code), read.error.message or "no reason given")
    for choice in read.choices or ():
        return _of_choice(choice, read.usage)
    return None


def _of_choice(choice: WireChoice, usage: WireUsage | None) -> Answer | None:
    message = choice.message
    if message is None:
        return None
    return Answer(
        text=message.content or "",
        reasoning=message.thinking,
        refusal=message.refusal or "",
        calls=tuple(
            make_call(call.id, call.function.name, arguments_text(call.function))
            for call in message.tool_calls or ()
            if call.function is not None
        ),
        finish=choice.finish_reason,
        usage=usage_of(usage),
        logprobs=None if choice.tokens is None else tuple(choice.tokens),
    )


def make_call(id: str | None, name: str | None, arguments: str) -> FunctionCall:
    """A call as agents see it: with an id, a name that may be sent back, and arguments even when there are none."""
    return FunctionCall(
        id=id or f"call_{uuid.uuid4().hex}", arguments=arguments or "{}", name=as_tool_name(name or "")
    )


def arguments_text(function: WireFunction) -> str:
    """The arguments as text; some servers send the object itself."""
    given = function.arguments
    return json.dumps(given, ensure_ascii=False) if isinstance(given, dict) else given or ""


def charged_in(body: bytes | str) -> RequestUsage:
    """Tokens that the server counted in a body, whatever else stands there."""
    try:
        return usage_of(WireCharge.model_validate_json(body).usage)
    except ValidationError:
        return NOTHING_USED


def usage_of(usage: WireUsage | None) -> RequestUsage:
    """Tokens, zeros for what the server leaves out."""
    if usage is None:
        return NOTHING_USED
    return RequestUsage(usage.prompt_tokens or 0, usage.completion_tokens or 0)
