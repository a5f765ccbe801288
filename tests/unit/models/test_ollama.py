"""The client for Ollama's own API, over Ollama's traffic as a script has it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel

from callboard.core.cancellation import CancellationToken
from callboard.models import (
    AssistantMessage,
    ChatCompletionClient,
    CreateResult,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    Image,
    LLMMessage,
    ModelInfo,
    UserMessage,
)
from callboard.models.errors import (
    BadRequestError,
    BadResponseError,
    ContextLengthError,
    ModelConnectionError,
    ModelNotFoundError,
    ModelOverloadedError,
)
from callboard.models.ollama import OllamaChatCompletionClient, address_of

from .asking import HELLO, stream_of

INFO = ModelInfo(
    vision=True, function_calling=True, json_output=True, structured_output=True, family="unknown"
)
TOOL = {"name": "look_up", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}


def said(content: str = "", *, read: int = 11, **message: Any) -> dict[str, Any]:
    """A whole answer of Ollama's."""
    end = {"done": True, "done_reason": "stop", "prompt_eval_count": read, "eval_count": 3}
    return {"model": "m", "message": {"role": "assistant", "content": content, **message}, **end}


def piece(content: str = "", **message: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", "content": content, **message}, "done": False}


class Ollama:
    """Answers requests by a script: one entry each, a table or the lines of a stream; errors as a Response."""

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[httpx2.Headers] = []
        self.paths: list[str] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.bodies.append(json.loads(request.content))
        self.headers.append(request.headers)
        self.paths.append(str(request.url))
        answer = self.script.pop(0)
        if isinstance(answer, httpx2.Response):
            return answer
        if isinstance(answer, dict):
            return httpx2.Response(200, json=answer)
        return httpx2.Response(200, text="".join(json.dumps(line) + "\n" for line in answer))

    def client(self, **given: Any) -> OllamaChatCompletionClient:
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self))
        return OllamaChatCompletionClient(
            "m", http_client=http, **{"model_info": INFO, "max_retries": 0, **given}
        )


async def test_an_answer_with_options_usage_and_thought(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-ollama")
    server = Ollama(said("Ahoy!", thinking="a greeting"))
    async with server.client(
        host="box", options={"num_ctx": 512, "num_predict": 9}, think=True, temperature=0
    ) as client:
        result = await client.create(HELLO)
        assert (result.content, result.finish_reason, result.thought) == ("Ahoy!", "stop", "a greeting")
        assert (result.usage.prompt_tokens, result.usage.completion_tokens) == (11, 3)
        assert client.actual_usage() == result.usage
        assert client.remaining_tokens(HELLO) == 512 - client.count_tokens(HELLO)
        assert client.max_completion_tokens == 9
    (body,) = server.bodies
    assert server.paths == ["http://box:11434/api/chat"]
    assert "sk-not" not in str(server.headers[0])
    assert body["options"] == {"num_ctx": 512, "num_predict": 9, "temperature": 0}
    assert (body["truncate"], body["shift"], body["stream"], body["think"]) == (False, False, False, True)
    assert body["messages"][-1] == {"role": "user", "content": "hello"}


async def test_a_stream() -> None:
    server = Ollama([piece(thinking="so"), piece("Ah"), piece("oy!"), said()])
    async with server.client() as client:
        pieces, result = await stream_of(client)
    assert pieces == ["<think>so", "</think>", "Ah", "oy!"]
    assert (result.content, result.thought, result.usage.total_tokens) == ("Ahoy!", "so", 14)


@pytest.mark.parametrize("streamed", [False, True])
async def test_parallel_calls_and_their_results_in_the_next_request(streamed: bool) -> None:
    calls = [{"function": {"name": "look_up", "arguments": {"city": city}}} for city in ("Oslo", "Rome")]
    first = [piece(thinking="hm"), piece(tool_calls=calls[:1]), piece(tool_calls=calls[1:]), said()]
    server = Ollama(first if streamed else said(tool_calls=calls, thinking="hm"), said("Cold."))
    async with server.client() as client:
        if streamed:
            items = [item async for item in client.create_stream(HELLO, tools=[TOOL])]
            called = items[-1]
        else:
            called = await client.create(HELLO, tools=[TOOL])
        assert isinstance(called, CreateResult)
        assert isinstance(called.content, list)
        assert called.finish_reason == "function_calls"
        assert [json.loads(call.arguments)["city"] for call in called.content] == ["Oslo", "Rome"]
        assert len({call.id for call in called.content}) == 2
        done = [
            FunctionExecutionResult(call_id=call.id, name=call.name, content="3 degrees", is_error=False)
            for call in called.content
        ]
        asked = AssistantMessage(content=called.content, source="bot", vendor=called.vendor)
        follow_up: list[LLMMessage] = [*HELLO, asked, FunctionExecutionResultMessage(content=done)]
        assert (await client.create(follow_up, tools=[TOOL])).content == "Cold."
    *_, assistant, one, two = server.bodies[1]["messages"]
    assert assistant["thinking"] == "hm"
    assert [call["function"]["arguments"] for call in assistant["tool_calls"]] == [
        {"city": "Oslo"},
        {"city": "Rome"},
    ]
    assert (one["tool_name"], one["content"], two["role"]) == ("look_up", "3 degrees", "tool")


async def test_a_cut_prompt_is_an_error_of_which_the_charge_is_known() -> None:
    long: list[LLMMessage] = [UserMessage(content="word " * 3000, source="ada")]
    server = Ollama(said("Yes?", read=512), [piece("Yes?"), said(read=512)], said("Yes?", read=512))
    async with server.client(options={"num_ctx": 1024}) as client:
        with pytest.raises(
            ContextLengthError, match=r"has cut the prompt: it read 512 tokens of about 3,0\d\d"
        ) as caught:
            await client.create(long)
        assert caught.value.usage.total_tokens == 515
        with pytest.raises(ContextLengthError, match="cut the prompt"):
            await stream_of(client, long)
        assert client.actual_usage().total_tokens == 1030
        wanted = await client.create(long, extra_create_args={"extra_body": {"truncate": True}})
        assert wanted.content == "Yes?"


async def test_a_prompt_that_fits_is_not_refused_for_a_count_without_what_was_cached() -> None:
    messages: list[LLMMessage] = [UserMessage(content="word " * 3000, source="ada")]
    async with Ollama(said("Yes?", read=20)).client(options={"num_ctx": 8192}) as client:
        assert (await client.create(messages)).content == "Yes?"


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (400, "the input length exceeds the context length", ContextLengthError),
        (404, "model 'm' not found", ModelNotFoundError),
        (503, "server busy, please try again", ModelOverloadedError),
        (400, "registry.ollama.ai/m does not support tools", BadRequestError),
    ],
)
async def test_errors_have_their_type_and_ollamas_words(
    status: int, error: str, kind: type[Exception]
) -> None:
    async with Ollama(httpx2.Response(status, json={"error": error})).client() as client:
        with pytest.raises(kind, match=error):
            await client.create(HELLO)


async def test_an_error_inside_a_stream_and_a_stream_that_stops() -> None:
    server = Ollama(
        [piece("Ah"), {"error": "out of memory"}], [piece("Ah")], httpx2.Response(200, text="[1]")
    )
    async with server.client() as client:
        with pytest.raises(BadResponseError, match="out of memory"):
            await stream_of(client)
        with pytest.raises(ModelConnectionError, match="before the answer was complete"):
            await stream_of(client)
        with pytest.raises(BadResponseError, match="no answer of Ollama's chat API"):
            await client.create(HELLO)


async def test_structured_output_images_and_what_it_does_not_have() -> None:
    class Weather(BaseModel):
        city: str

    server = Ollama(said('{"city": "Oslo"}'), said("A dot."))
    async with server.client() as client:
        assert (await client.create(HELLO, json_output=Weather)).content == '{"city": "Oslo"}'
        picture = Image.from_bytes(b"\x89PNG\r\n\x1a\n...")
        await client.create([UserMessage(content=["What?", picture], source="ada")])
        with pytest.raises(BadRequestError, match="as their bytes"):
            await client.create(
                [UserMessage(content=[Image.from_url("https://example.org/a.png")], source="ada")]
            )
        with pytest.raises(BadRequestError, match="Ollama has no argument 'logit_bias'"):
            await client.create(HELLO, extra_create_args={"logit_bias": {"1": 2}})
    assert server.bodies[0]["format"]["properties"]["city"]["type"] == "string"
    assert server.bodies[1]["messages"][0]["images"] == [picture.to_base64()]
    with pytest.raises(BadRequestError, match="there is no argument 'hots'"):
        OllamaChatCompletionClient("m", model_info=INFO, hots="box")


async def test_a_cancelled_request_ends() -> None:
    token, asked = CancellationToken(), asyncio.Event()

    class Slow(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            asked.set()
            await asyncio.Event().wait()
            yield b""

    async with Ollama(httpx2.Response(200, stream=Slow())).client() as client:
        asking = asyncio.ensure_future(client.create(HELLO, cancellation_token=token))
        await asked.wait()
        token.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert client.actual_usage().prompt_tokens > 0


def test_a_dump_is_loaded_by_autogens_name_too() -> None:
    client = OllamaChatCompletionClient(
        "m",
        options={"num_ctx": 512},
        headers={"Authorization": "Bearer hidden"},
        model_info=INFO,
        think="low",
    )
    dumped = client.dump_component()
    assert "hidden" not in dumped.model_dump_json()
    for provider in (dumped.provider, "autogen_ext.models.ollama.OllamaChatCompletionClient"):
        loaded = ChatCompletionClient.load_component(dumped.model_copy(update={"provider": provider}))
        assert isinstance(loaded, OllamaChatCompletionClient)
        assert loaded.fingerprint() == client.fingerprint()


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("box", "http://box:11434"),
        ("box:80", "http://box:80"),
        ("https://box/", "https://box"),
        (None, "http://127.0.0.1:11434"),
    ],
)
def test_addresses(given: str | None, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OLLAMA_HOST", raising=False)
    assert address_of(given) == address
