"""The API as it goes over the wire: names that it takes, and answers, whole or in chunks.

Servers differ: they leave fields out, send null where the API has a list, and objects where it has text. The fields
required here are those that no answer can do without; all other fields are ignored. Source: OpenAI's chat completions
API; `reasoning_content` as DeepSeek, vLLM and llama.cpp have it, `reasoning` as Ollama and OpenRouter.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from callboard.models.types import ChatCompletionTokenLogprob

LONGEST_NAME: Final = 64  # characters
MOST_TOKENS: Final = 10**9  # more of them nobody reads or writes for one request
ALLOWED: Final = re.compile(r"[a-zA-Z0-9_-]+")
OTHER: Final = re.compile(r"[^a-zA-Z0-9_-]")


def is_name(text: str) -> bool:
    """Whether the API takes a text as the name of a tool or of a speaker."""
    return len(text) <= LONGEST_NAME and ALLOWED.fullmatch(text) is not None


def as_tool_name(text: str) -> str:
    """The name of a tool as a model wrote it, made so that it can be sent back in the next request.

    As AutoGen's `normalize_name`.
    """
    return OTHER.sub("_", text)[:LONGEST_NAME]


def first_problem(error: ValidationError) -> str:
    """The first problem of data and its place, in words that repeat nothing of the data."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    return f"{path}{': ' if path else ''}{first['msg']}"


class _Wire(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class WireFunction(_Wire):
    """Name and arguments of a call, or pieces of them."""

    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class WireCall(_Wire):
    """A tool call, or a piece of one; `index` tells which one."""

    index: int | None = None
    id: str | None = None
    function: WireFunction | None = None


class WireMessage(_Wire):
    """A message of the assistant, or a piece of one."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[WireCall] | None = None

    @property
    def thinking(self) -> str:
        """The reasoning, "" for none."""
        return self.reasoning_content or self.reasoning or ""


class WireLogprobs(_Wire):
    """The tokens of the answer."""

    content: list[ChatCompletionTokenLogprob] | None = None


class WireChoice(_Wire):
    """One answer; in a chunk it has a `delta` in place of a `message`."""

    message: WireMessage | None = None
    delta: WireMessage | None = None
    finish_reason: str | None = None
    logprobs: WireLogprobs | None = None

    @property
    def tokens(self) -> list[ChatCompletionTokenLogprob] | None:
        """The tokens of the answer, None when they were not asked for."""
        return None if self.logprobs is None else self.logprobs.content


def _tokens(value: Any) -> int | None:
    """A number of tokens; None for what is none, so that a wrong count neither costs the answer nor spoils a sum."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return int(value) if is_number and 0 <= value <= MOST_TOKENS else None


def _table(value: Any) -> Any:
    return value if isinstance(value, dict) else None


TokenCount: TypeAlias = Annotated[int | None, BeforeValidator(_tokens)]


class WireUsage(_Wire):
    """The number of tokens."""

    prompt_tokens: TokenCount = None
    completion_tokens: TokenCount = None


Usage: TypeAlias = Annotated[WireUsage | None, BeforeValidator(_table)]


class WireCharge(_Wire):
    """What was used, of an answer that can't be read otherwise."""

    usage: Usage = None


class WireError(_Wire):
    """An error that some servers send with status 200 in place of an answer."""

    message: str | None = None
    code: str | int | None = None


class WireAnswer(_Wire):
    """An answer, or a chunk of one."""

    error: WireError | None = None
    choices: list[WireChoice] | None = None
    usage: Usage = None
