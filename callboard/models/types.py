"""The parts of a model's answer, with the names and fields of `autogen_core.models`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from callboard.broker.encoding.registry import message
from callboard.memory.llm_messages import FunctionCall

FinishReasons: TypeAlias = Literal["stop", "length", "function_calls", "content_filter", "unknown"]


@dataclass(frozen=True)
class RequestUsage:
    """Tokens of one request, or of several added up.

    Add them with ``+``: it can't be changed, so that one that was handed out never changes behind anybody's back.
    AutoGen's can: a client of your own that counts with ``usage.prompt_tokens += n`` there writes
    ``usage += RequestUsage(n, 0)`` here.

    Attributes:
        prompt_tokens: tokens that the model read.
        completion_tokens: tokens that it wrote, its reasoning included.
    """

    prompt_tokens: int
    completion_tokens: int

    @property
    def total_tokens(self) -> int:
        """Both together."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: RequestUsage) -> RequestUsage:
        return RequestUsage(
            self.prompt_tokens + other.prompt_tokens, self.completion_tokens + other.completion_tokens
        )


@dataclass(frozen=True)
class TopLogprob:
    """The probability of another token at one position.

    Attributes:
        logprob: natural logarithm of its probability.
        bytes: the token as UTF-8; None when it has no bytes of its own.
    """

    logprob: float
    bytes: list[int] | None = None


class ChatCompletionTokenLogprob(BaseModel):
    """The probability of a token of the answer.

    Attributes:
        token: the token.
        logprob: natural logarithm of its probability.
        top_logprobs: the likeliest tokens at its position.
        bytes: the token as UTF-8.
    """

    model_config = ConfigDict(frozen=True)

    token: str
    logprob: float
    top_logprobs: list[TopLogprob] | None = None
    bytes: list[int] | None = None


@message(name="callboard.CreateResult")
class CreateResult(BaseModel):
    """The answer of a model.

    Attributes:
        finish_reason: why it ended.
        content: a text, or the calls that the model asks for.
        usage: tokens of this request.
        cached: whether it comes from a cache, so that nothing was paid for it.
        logprobs: of the tokens of the answer, when they were asked for.
        thought: its reasoning, or the text that came along with calls.
    """

    model_config = ConfigDict(frozen=True)

    finish_reason: FinishReasons
    content: str | list[FunctionCall]
    usage: RequestUsage
    cached: bool
    logprobs: list[ChatCompletionTokenLogprob] | None = None
    thought: str | None = None
