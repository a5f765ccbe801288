"""The client against a small real model behind llama.cpp's own server, where its packages are installed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Literal

import pytest
from pydantic import BaseModel

from callboard.memory.llm_messages import LLMMessage, SystemMessage, UserMessage
from callboard.models.errors import ContextLengthError
from callboard.models.info import ModelInfo
from callboard.models.openai import OpenAIChatCompletionClient
from callboard.models.types import CreateResult
from scripts.benchmarks.small_models import SmallModel
from tests.helpers.local_model import local_model, missing

pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing() or "installed"), pytest.mark.slow]

INFO = ModelInfo(
    vision=False, function_calling=False, json_output=True, family="unknown", structured_output=True
)
QUESTION: list[LLMMessage] = [
    SystemMessage(content="You answer in one short sentence."),
    UserMessage(content="What is the capital of France?", source="ada"),
]
ADD = {
    "name": "add",
    "description": "Adds two numbers.",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
}


class Speaker(BaseModel):
    speaker: Literal["writer", "critic"]
    reason: str


@pytest.fixture(scope="module")
def model() -> Iterator[SmallModel]:
    with local_model() as running:
        yield running


@pytest.fixture
async def client(model: SmallModel) -> AsyncIterator[OpenAIChatCompletionClient]:
    made = OpenAIChatCompletionClient(
        "smollm2",
        base_url=model.url,
        model_info=INFO,
        tool_mode="schema",
        temperature=0.0,
        seed=1,
        max_tokens=60,
    )
    async with made:
        yield made


async def test_chat(client: OpenAIChatCompletionClient) -> None:
    result = await client.create(QUESTION)

    assert isinstance(result.content, str)
    assert "Paris" in result.content
    assert result.finish_reason == "stop"
    assert result.usage.prompt_tokens > 10
    assert result.usage.completion_tokens > 1


async def test_stream(client: OpenAIChatCompletionClient) -> None:
    *pieces, result = [item async for item in client.create_stream(QUESTION)]

    assert isinstance(result, CreateResult)
    assert len(pieces) > 2
    assert "".join(str(piece) for piece in pieces) == result.content
    assert result.usage.completion_tokens > 1


async def test_logprobs(client: OpenAIChatCompletionClient) -> None:
    result = await client.create(QUESTION, extra_create_args={"logprobs": True, "top_logprobs": 2})

    assert result.logprobs
    assert result.logprobs[0].top_logprobs
    assert result.logprobs[0].logprob <= 0


async def test_an_object_of_a_class(client: OpenAIChatCompletionClient) -> None:
    ask = UserMessage(content="Who speaks next, the writer or the critic? Give a short reason.", source="ada")

    result = await client.create([ask], json_output=Speaker)

    assert isinstance(result.content, str)
    assert Speaker.model_validate_json(result.content).speaker in ("writer", "critic")


async def test_a_tool_through_a_schema(client: OpenAIChatCompletionClient) -> None:
    ask = UserMessage(content="Add 2 and 3.", source="ada")

    result = await client.create([ask], tools=[ADD], tool_choice="required")

    assert isinstance(result.content, list)
    (call,) = result.content
    assert call.name == "add"
    assert set(json.loads(call.arguments)) == {"a", "b"}


async def test_a_conversation_that_is_too_long(client: OpenAIChatCompletionClient) -> None:
    with pytest.raises(ContextLengthError):
        await client.create([UserMessage(content="word " * 5000, source="ada")])


async def test_the_estimate_of_tokens_is_near(client: OpenAIChatCompletionClient) -> None:
    text = "The quick brown fox jumps over the lazy dog while the children watch from the garden. " * 4
    messages = [UserMessage(content=text, source="ada")]

    result = await client.create(messages, extra_create_args={"max_tokens": 1})

    assert client.count_tokens(messages) == pytest.approx(result.usage.prompt_tokens, rel=0.25)
