"""Requests and answers for tests of model clients."""

from __future__ import annotations

from callboard.memory.llm_messages import LLMMessage
from callboard.models import ChatCompletionClient, CreateResult, RequestUsage, SystemMessage, UserMessage

HELLO: list[LLMMessage] = [SystemMessage(content="be kind"), UserMessage(content="hello", source="user")]


def result(content: str, prompt: int = 10, completion: int = 5, *, cached: bool = False) -> CreateResult:
    """An answer with its usage."""
    return CreateResult(
        finish_reason="stop", content=content, usage=RequestUsage(prompt, completion), cached=cached
    )


async def stream_of(
    client: ChatCompletionClient, messages: list[LLMMessage] | None = None
) -> tuple[list[str], CreateResult]:
    """The pieces of a stream and its result."""
    *pieces, last = [item async for item in client.create_stream(messages or HELLO)]
    assert isinstance(last, CreateResult)
    return [piece for piece in pieces if isinstance(piece, str)], last
