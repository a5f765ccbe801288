"""What is read of an answer, whole or in chunks. Everything else that a server sends is ignored.

Servers differ: they leave fields out, send null where the API has a list, and objects where it has text. What is
required here is what no answer can do without. Source: OpenAI's chat completions API; `reasoning_content` as
DeepSeek, vLLM and llama.cpp have it, `reasoning` as Ollama and OpenRouter.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


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


class WireTopLogprob(_Wire):
    """Another token at one place."""

    logprob: float
    bytes: list[int] | None = None


class WireLogprob(_Wire):
    """A token of the answer."""

    token: str
    logprob: float
    bytes: list[int] | None = None
    top_logprobs: list[WireTopLogprob] | None = None


class WireLogprobs(_Wire):
    """The tokens of the answer."""

    content: list[WireLogprob] | None = None


class WireChoice(_Wire):
    """One answer; in a chunk it has a `delta` in place of a `message`."""

    message: WireMessage | None = None
    delta: WireMessage | None = None
    finish_reason: str | None = None
    logprobs: WireLogprobs | None = None


class WireUsage(_Wire):
    """Tokens."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class WireError(_Wire):
    """What some servers send with status 200 in place of an answer."""

    message: str | None = None
    code: str | int | None = None


class WireAnswer(_Wire):
    """An answer, or a chunk of one."""

    error: WireError | None = None

    choices: list[WireChoice] | None = None
    usage: WireUsage | None = None
