"""Refusals of servers, over real sockets: each as the error of its kind, without secrets."""

from __future__ import annotations

import json
import time
from email.utils import formatdate

import pytest

from callboard.memory.llm_messages import LLMMessage, UserMessage
from callboard.models.errors import (
    AuthenticationError,
    BadRequestError,
    BadResponseError,
    ContentFilterError,
    ContextLengthError,
    ModelConnectionError,
    ModelError,
    ModelNotFoundError,
    ModelOverloadedError,
    ModelTimeoutError,
    QuotaExceededError,
    RateLimitError,
)
from callboard.models.openai import OpenAIChatCompletionClient
from tests.helpers.openai_server import (
    Behaviour,
    Cut,
    OpenAIServer,
    Raw,
    Refused,
    bad_key,
    filtered,
    overloaded,
    rate_limited,
    too_long,
)

from .conftest import MakeClient

HELLO: list[LLMMessage] = [UserMessage(content="Hello", source="ada")]
LLAMA_TOO_LONG = "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it"
VLLM_TOO_LONG = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens"

REFUSALS: list[tuple[Behaviour, type[ModelError]]] = [
    (rate_limited(), RateLimitError),
    (Refused(429, code="insufficient_quota"), QuotaExceededError),
    (Refused(402), QuotaExceededError),
    (overloaded(500), ModelOverloadedError),
    (overloaded(503), ModelOverloadedError),
    (overloaded(529), ModelOverloadedError),
    (Refused(409), ModelOverloadedError),
    (Refused(504), ModelTimeoutError),
    (Refused(408), ModelTimeoutError),
    (bad_key(), AuthenticationError),
    (Refused(403), AuthenticationError),
    (too_long(), ContextLengthError),
    (Refused(413), ContextLengthError),
    (Refused(400, LLAMA_TOO_LONG, type="exceed_context_size_error"), ContextLengthError),
    (Refused(400, VLLM_TOO_LONG, type="BadRequestError"), ContextLengthError),
    (filtered(), ContentFilterError),
    (Refused(404, "The model `m` does not exist", "model_not_found"), ModelNotFoundError),
    (Refused(404, "The API deployment does not exist", "DeploymentNotFound"), ModelNotFoundError),
    (Refused(400, "Unsupported value", "unsupported_value"), BadRequestError),
    (Refused(422), BadRequestError),
    (Refused(501), BadRequestError),
    (Cut(), ModelConnectionError),
    (Raw("{bad json"), BadResponseError),
    (Raw("<html></html>", content_type="text/html"), ModelOverloadedError),
    (Raw("[]"), BadResponseError),
    (Raw('{"choices": []}'), BadResponseError),
    (Raw('{"choices": null}'), BadResponseError),
    (Raw('{"choices": [{"finish_reason": "stop"}]}'), BadResponseError),
    (Raw('{"choices": [{"message": {"content": 5}}]}'), BadResponseError),
    (Raw('{"error": {"message": "slow down", "code": 429}}'), RateLimitError),
    (Raw('{"error": {"message": "busy", "code": "server_error"}}'), ModelOverloadedError),
    (Raw('{"error": {}}'), BadResponseError),
    (Raw("<html>Bad gateway</html>", 502, "text/html"), ModelOverloadedError),
]


@pytest.mark.parametrize(("refusal", "kind"), REFUSALS, ids=str)
async def test_every_refusal_has_its_kind(
    server: OpenAIServer, client: OpenAIChatCompletionClient, refusal: Behaviour, kind: type[ModelError]
) -> None:
    server.script(refusal, refusal)

    with pytest.raises(ModelError) as failed:
        await client.create(HELLO)
    assert type(failed.value) is kind
    with pytest.raises(ModelError) as failed:
        async for _ in client.create_stream(HELLO):
            pass
    assert isinstance(failed.value, ModelError)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after": "-1"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": formatdate(time.time() - 60, usegmt=True)}, 0.0),
    ],
)
async def test_retry_after(
    server: OpenAIServer,
    client: OpenAIChatCompletionClient,
    headers: dict[str, str],
    seconds: float | None,
) -> None:
    server.script(Refused(429, headers=headers))

    with pytest.raises(RateLimitError) as failed:
        await client.create(HELLO)

    assert failed.value.retry_after == seconds
    assert failed.value.status == 429


async def test_retry_after_as_a_date(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    server.script(
        overloaded(503), Refused(503, headers={"retry-after": formatdate(time.time() + 600, usegmt=True)})
    )

    with pytest.raises(ModelOverloadedError) as failed:
        await client.create(HELLO)
    assert failed.value.retry_after is None
    with pytest.raises(ModelOverloadedError) as failed:
        await client.create(HELLO)
    assert failed.value.retry_after == pytest.approx(600, abs=60)


async def test_a_wrong_key(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    server.script(Refused(401, "Incorrect API key provided: sk-test", "invalid_api_key"))

    with pytest.raises(AuthenticationError, match="OPENAI_API_KEY") as failed:
        await client.create(HELLO)

    assert "sk-test" not in str(failed.value)
    assert failed.value.permanent


async def test_a_wrong_address(server: OpenAIServer, make: MakeClient) -> None:
    with pytest.raises(ModelNotFoundError, match=r"/wrong does not answer as a chat API does.*ends in /v1"):
        await make(base_url=f"{server.root}/wrong").create(HELLO)


async def test_an_unknown_model_and_the_address(
    server: OpenAIServer, client: OpenAIChatCompletionClient
) -> None:
    server.script(Refused(404, "The model `m` does not exist", "model_not_found"))

    with pytest.raises(ModelNotFoundError) as failed:
        await client.create(HELLO)

    assert str(failed.value) == (
        f"m: {server.url}: The model `m` does not exist (HTTP 404). Check the model's name and the base_url"
    )


async def test_the_status_is_said_once(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    server.script(Refused(400, "Unsupported value"), Raw('{"detail": "no such thing"}', 422))

    with pytest.raises(BadRequestError) as failed:
        await client.create(HELLO)
    assert str(failed.value) == "m: Unsupported value (HTTP 400)"
    with pytest.raises(BadRequestError) as failed:
        await client.create(HELLO)
    assert str(failed.value).count("422") == 1
    assert "no such thing" in str(failed.value)


async def test_a_web_page_is_not_repeated(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    server.script(Raw("<html>" + "x" * 10_000, 502, "text/html"), Refused(400, "y" * 10_000))

    with pytest.raises(ModelOverloadedError) as failed:
        await client.create(HELLO)
    assert "xxx" not in str(failed.value)
    with pytest.raises(BadRequestError) as refused:
        await client.create(HELLO)
    assert len(str(refused.value)) < 1_000


async def test_the_original_error_is_the_cause(
    server: OpenAIServer, client: OpenAIChatCompletionClient
) -> None:
    server.script(rate_limited())

    with pytest.raises(RateLimitError) as failed:
        await client.create(HELLO)

    assert type(failed.value.__cause__).__module__.startswith("openai")
    assert failed.value.model == "m"


def _of_gemini(status: int, message: str, state: str, *details: dict[str, str]) -> Raw:
    error = {"code": status, "message": message, "status": state, "details": list(details)}
    return Raw(json.dumps([{"error": error}]), status)


async def test_errors_of_gemini_are_lists(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}
    server.script(
        _of_gemini(400, "API key not valid. Please pass a valid API key.", "INVALID_ARGUMENT"),
        _of_gemini(404, "models/gemini-9 is not found", "NOT_FOUND"),
        _of_gemini(400, "Function call is missing a thought_signature", "INVALID_ARGUMENT"),
        _of_gemini(429, "Quota exceeded for requests per minute", "RESOURCE_EXHAUSTED", retry),
    )
    with pytest.raises(AuthenticationError, match="API key not valid"):
        await client.create(HELLO)
    with pytest.raises(ModelNotFoundError, match="models/gemini-9 is not found"):
        await client.create(HELLO)
    with pytest.raises(BadRequestError, match="missing a thought_signature"):
        await client.create(HELLO)
    with pytest.raises(RateLimitError, match="per minute") as failed:
        await client.create(HELLO)
    assert failed.value.retry_after == 34.5


@pytest.mark.parametrize(
    "body", [[], [1], {"error": "no"}, [{"error": {"details": [1, {"retryDelay": "soon"}]}}]]
)
async def test_a_body_that_is_anything_is_an_error_of_its_status(
    server: OpenAIServer, client: OpenAIChatCompletionClient, body: object
) -> None:
    server.script(Raw(json.dumps(body), 429))
    with pytest.raises(RateLimitError) as failed:
        await client.create(HELLO)
    assert failed.value.retry_after is None


@pytest.mark.parametrize("code", [500, 502, 503, 529, "502"])
async def test_an_outage_within_a_200_is_one(
    server: OpenAIServer, client: OpenAIChatCompletionClient, code: object
) -> None:
    server.script(Raw(json.dumps({"error": {"code": code, "message": "Provider returned error"}}), 200))
    with pytest.raises(ModelOverloadedError, match="Provider returned error"):
        await client.create(HELLO)


async def test_a_web_page_with_200_is_an_outage(
    server: OpenAIServer, client: OpenAIChatCompletionClient
) -> None:
    server.script(
        Raw("\n<!doctype html><html>We are back soon", 200, "text/html"), Raw("pong", 200, "text/plain")
    )
    with pytest.raises(ModelOverloadedError, match="sent a web page and no answer"):
        await client.create(HELLO)
    with pytest.raises(BadResponseError, match="sent no chat completion: Invalid JSON"):
        await client.create(HELLO)


@pytest.mark.parametrize("key", ["x", "ollama", "no-key"])
async def test_a_key_that_is_a_word_leaves_texts_alone(
    server: OpenAIServer, make: MakeClient, key: str
) -> None:
    server.script(Refused(400, "Next: no-key is needed for ollama in this box"))
    with pytest.raises(BadRequestError, match="Next: no-key is needed for ollama in this box"):
        await make(api_key=key).create(HELLO)
