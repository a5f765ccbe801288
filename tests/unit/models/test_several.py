"""Another model where one can't answer, or one for each kind of request."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.agents import AssistantAgent
from callboard.errors import SettingValueError
from callboard.memory.llm_messages import LLMMessage, UserMessage
from callboard.models import (
    ChatCompletionClient,
    CreateResult,
    FallbackChatCompletionClient,
    ModelRequest,
    ModelRetries,
    ModelSettings,
    ReplayChatCompletionClient,
    RequestUsage,
    RetryingChatCompletionClient,
    RoutingChatCompletionClient,
    Streamed,
    UsageLedger,
)
from callboard.models.budget import counted_here
from callboard.models.errors import (
    AuthenticationError,
    BadRequestError,
    BadResponseError,
    BudgetHeldError,
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
from callboard.models.stores import LocalStore
from callboard.runtime.execution import usage_run

HELLO: list[LLMMessage] = [UserMessage(content="Hello", source="ada")]
ELSEWHERE = (
    AuthenticationError,
    BadResponseError,
    ContentFilterError,
    ContextLengthError,
    ModelConnectionError,
    ModelNotFoundError,
    ModelOverloadedError,
    ModelTimeoutError,
    QuotaExceededError,
    RateLimitError,
)


def model(name: str, *answers: Any) -> ReplayChatCompletionClient:
    return ReplayChatCompletionClient(list(answers), model=name)


async def streamed(client: ChatCompletionClient) -> CreateResult:
    *_, result = [item async for item in client.create_stream(HELLO)]
    assert isinstance(result, CreateResult)
    return result


@pytest.mark.parametrize("kind", ELSEWHERE)
@pytest.mark.parametrize("stream", [False, True])
async def test_another_model_answers_where_one_can_not(kind: type[ModelError], stream: bool) -> None:
    failed = kind("a", "no")
    failed.charge(RequestUsage(7, 0))
    client = FallbackChatCompletionClient(model("a", failed), model("b", "Hi"))
    result = await (streamed(client) if stream else client.create(HELLO))
    assert result.content == "Hi"
    assert result.usage.prompt_tokens >= 7


@pytest.mark.parametrize("kind", [BadRequestError, BudgetHeldError])
async def test_what_is_the_same_everywhere_is_raised_at_once(kind: type[ModelError]) -> None:
    second = model("b", "Hi")
    client = FallbackChatCompletionClient(model("a", kind("a", "no")), second)
    with pytest.raises(kind):
        await client.create(HELLO)
    assert second.create_calls == []


async def test_the_last_error_is_raised_where_none_can() -> None:
    errors = [RateLimitError("a", "slow down"), ModelOverloadedError("b", "busy")]
    client = FallbackChatCompletionClient(*(model(one.model, one) for one in errors))
    with pytest.raises(ModelOverloadedError, match="b: busy"):
        await client.create(HELLO)


async def test_one_that_is_down_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("callboard.models.several.time.monotonic", lambda: now)
    first, second = model("a", ModelConnectionError("a", "gone"), "A"), model("b", "B", "B", "B")
    client = FallbackChatCompletionClient(first, second, rest=30)
    assert (await client.create(HELLO)).content == "B"
    now = 29.0
    assert (await client.create(HELLO)).content == "B"
    assert len(first.create_calls) == 1
    now = 30.0
    assert (await client.create(HELLO)).content == "A"


async def test_a_stream_that_has_begun_stays_with_its_model() -> None:
    broken = Streamed(["The sea", ModelConnectionError("a", "gone")])
    second = model("b", "Hi")
    client = FallbackChatCompletionClient(model("a", broken), second)
    stream = client.create_stream(HELLO)
    pieces = [await anext(stream)]
    with pytest.raises(ModelError):
        await anext(stream)
    assert (pieces, second.create_calls) == (["The sea"], [])


async def test_each_model_counts_by_its_name_in_a_run() -> None:
    failed = ContentFilterError("a", "no")
    failed.charge(RequestUsage(7, 0))
    client = FallbackChatCompletionClient(model("a", failed), model("b", "Hi"))
    store = LocalStore()
    with counted_here(store), usage_run("r"):
        await AssistantAgent("ada", client).run(task="Hello")
    usage = await UsageLedger(store).of_run("r")
    assert {name: spent.requests for name, spent in usage.by_model.items()} == {"a": 1, "b": 1}
    assert usage.by_model["a"].prompt_tokens == 7


async def test_it_can_do_what_all_can() -> None:
    blind = {
        "vision": False,
        "function_calling": True,
        "json_output": True,
        "family": "x",
        "structured_output": True,
    }
    client = FallbackChatCompletionClient(model("a"), ReplayChatCompletionClient([], blind))  # type: ignore[arg-type]
    assert client.model == "a"
    assert client.model_info["vision"] is False
    again = FallbackChatCompletionClient.load_component(client.dump_component())
    assert again.fingerprint() == client.fingerprint()


async def test_a_function_chooses_the_model() -> None:
    def choose(request: ModelRequest) -> str:
        return "large" if request.tools else "small"

    client = RoutingChatCompletionClient({"small": model("s", "S", "S"), "large": model("l", "L")}, choose)
    assert (await client.create(HELLO)).content == "S"
    assert (await client.create(HELLO, tools=[{"name": "add"}])).content == "L"
    assert (await streamed(client)).content == "S"


async def test_what_can_not_work_is_refused() -> None:
    with pytest.raises(SettingValueError, match="at least one model client"):
        FallbackChatCompletionClient()
    with pytest.raises(SettingValueError, match="rest=-1"):
        FallbackChatCompletionClient(model("a"), rest=-1)
    client = RoutingChatCompletionClient({"small": model("s")}, lambda request: "smal")
    with pytest.raises(SettingValueError, match="Did you mean 'small'"):
        await client.create(HELLO)


@pytest.mark.parametrize("attempts", [1, 2, 5])
async def test_a_client_that_makes_its_own_attempts_falls_over_on_timeouts(attempts: int) -> None:
    async def nothing(seconds: float) -> None: ...

    slow = ReplayChatCompletionClient([], model="a", default=lambda messages: ModelTimeoutError("a", "late"))
    retries = ModelRetries(ModelSettings(max_attempts=attempts), sleep=nothing)
    client = FallbackChatCompletionClient(RetryingChatCompletionClient(slow, retries), model("b", "Hi"))
    assert (await client.create(HELLO)).content == "Hi"
    assert len(slow.create_calls) == min(attempts, 2)
