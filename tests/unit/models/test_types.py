from __future__ import annotations

from callboard.broker import MessageRegistry
from callboard.models import ChatCompletionTokenLogprob, CreateResult, FunctionCall, RequestUsage, TopLogprob


def test_usage_adds_up() -> None:
    usage = RequestUsage(1, 2) + RequestUsage(prompt_tokens=3, completion_tokens=4)
    assert usage == RequestUsage(4, 6)
    assert usage.total_tokens == 10


def test_a_result_crosses_the_bus_and_json() -> None:
    result = CreateResult(
        finish_reason="function_calls",
        content=[FunctionCall("1", "{}", "f")],
        usage=RequestUsage(1, 2),
        cached=False,
        logprobs=[
            ChatCompletionTokenLogprob(
                token="a", logprob=-0.5, top_logprobs=[TopLogprob(-0.5, [97])], bytes=[97]
            )
        ],
        thought="hm",
    )
    assert CreateResult.model_validate_json(result.model_dump_json()) == result
    entry = MessageRegistry().entry_for(result)
    assert entry.decode(entry.encode(result)) == result
