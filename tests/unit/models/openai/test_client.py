"""Whole answers, over real sockets."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel

from callboard import CancellationToken
from callboard.memory.llm_messages import (
    AssistantMessage,
    FunctionCall,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)
from callboard.models.errors import (
    BadRequestError,
    BadResponseError,
    ModelConnectionError,
    ModelTimeoutError,
    RateLimitError,
)
from callboard.models.info import ModelInfo
from callboard.models.openai import OpenAIChatCompletionClient
from callboard.models.openai.chat_request import AFTER_RESULTS
from callboard.models.retries import ModelRetries
from callboard.models.types import ChatCompletionTokenLogprob, RequestUsage, TopLogprob
from tests.helpers.eventually import eventually
from tests.helpers.openai_server import (
    Answer,
    Call,
    Cut,
    OpenAIServer,
    Raw,
    Slow,
    Usage,
    overloaded,
    rate_limited,
)

from .conftest import MakeClient, growing_limits

HELLO: list[LLMMessage] = [UserMessage(content="Hello", source="ada")]
ADD = {
    "name": "add",
    "description": "Adds numbers.",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
}


class Tool:
    """Something with a name and a schema, as every tool is."""

    name = "add"
    schema = ADD


class Weather(BaseModel):
    city: str
    degrees: int


async def test_a_text(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    server.script(Answer("Hello, Ada.", usage=Usage(prompt=11, completion=4)))

    result = await client.create([SystemMessage(content="Be kind."), *HELLO])

    assert result.content == "Hello, Ada."
    assert result.finish_reason == "stop"
    assert result.usage == RequestUsage(11, 4)
    assert result.thought is None
    assert result.cached is False
    asked = server.last
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == "Bearer sk-test"
    assert asked.body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Hello", "name": "ada"},
        ],
    }


async def test_arguments_of_the_client_and_of_the_request(server: OpenAIServer, make: MakeClient) -> None:
    client = make(
        temperature=0.5,
        seed=7,
        stop=["END"],
        organization="org",
        default_headers={"x-team": "blue"},
        extra_body={"top_k": 5},
    )
    server.script(Answer("a"))

    await client.create(HELLO, extra_create_args={"temperature": 0.1, "max_tokens": 9})

    body = server.last.body
    assert (body["temperature"], body["seed"], body["stop"]) == (0.1, 7, ["END"])
    assert (body["max_tokens"], body["top_k"]) == (9, 5)
    assert server.last.headers["x-team"] == "blue"
    assert server.last.headers["openai-organization"] == "org"


async def test_an_unknown_argument_is_refused(client: OpenAIChatCompletionClient) -> None:
    with pytest.raises(BadRequestError, match=r"'temprature'\. Did you mean 'temperature'"):
        await client.create(HELLO, extra_create_args={"temprature": 1})
    with pytest.raises(BadRequestError, match="extra_body"):
        await client.create(HELLO, extra_create_args={"messages": []})


async def test_usage_adds_up(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    server.script(Answer("a", usage=Usage(prompt=1, completion=2)), Answer("b", usage=None), Answer("c"))

    for _ in range(3):
        await client.create(HELLO)

    assert client.actual_usage() == client.total_usage() == RequestUsage(8, 5)


# Tools


async def test_a_tool_is_offered_and_called(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    server.script(Answer("I'll add.", [Call("add", '{"a": 1}', "x1"), Call("add", '{"a": 2}', "x2")]))

    result = await client.create(HELLO, tools=[Tool()])

    assert result.content == [FunctionCall("x1", '{"a": 1}', "add"), FunctionCall("x2", '{"a": 2}', "add")]
    assert result.finish_reason == "function_calls"
    assert result.thought == "I'll add."
    assert server.last.body["tools"] == [{"type": "function", "function": ADD}]
    assert "tool_choice" not in server.last.body


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("required", "required"),
        ("none", "none"),
        (Tool(), {"type": "function", "function": {"name": "add"}}),
    ],
)
async def test_tool_choice(
    server: OpenAIServer, client: OpenAIChatCompletionClient, choice: Any, sent: object
) -> None:
    server.script(Answer("a"))

    await client.create(HELLO, tools=[Tool()], tool_choice=choice)

    assert server.last.body["tool_choice"] == sent


async def test_parallel_tool_calls_are_only_spoken_of_with_tools(
    server: OpenAIServer, make: MakeClient
) -> None:
    client = make(parallel_tool_calls=False)
    server.script(Answer("a"), Answer("b"), Answer("c"))

    await client.create(HELLO)
    assert "parallel_tool_calls" not in server.last.body
    await client.create(HELLO, tools=[ADD])
    assert server.last.body["parallel_tool_calls"] is False
    await client.create(HELLO, tools=[ADD], extra_create_args={"parallel_tool_calls": True})
    assert server.last.body["parallel_tool_calls"] is True


async def test_a_strict_tool(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    server.script(Answer("a"))

    await client.create(HELLO, tools=[{**ADD, "strict": True}])

    function = server.last.body["tools"][0]["function"]
    assert function["strict"] is True
    assert function["parameters"]["additionalProperties"] is False


async def test_a_conversation_with_calls_and_results(
    server: OpenAIServer, client: OpenAIChatCompletionClient
) -> None:
    server.script(Answer("3"))
    call = FunctionCall("x1", '{"a": 1}', "add")
    result = FunctionExecutionResult(content="3", name="add", call_id="x1", is_error=False)

    await client.create(
        [
            *HELLO,
            AssistantMessage(content=[call], thought="I'll add.", source="bot"),
            FunctionExecutionResultMessage(content=[result]),
            AssistantMessage(content="It is 3.", source="bot"),
        ],
        tools=[ADD],
    )

    assert server.last.body["messages"][1:] == [
        {
            "role": "assistant",
            "name": "bot",
            "content": "I'll add.",
            "tool_calls": [
                {"id": "x1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "x1", "content": "3"},
        {"role": "assistant", "name": "bot", "content": "It is 3."},
        {"role": "user", "content": "Go on."},
    ]


# Structured output


async def test_an_object_of_a_class(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    server.script(Answer('```json\n{"city": "Paris", "degrees": 21}\n```'))

    result = await client.create(HELLO, json_output=Weather)

    assert isinstance(result.content, str)
    assert Weather.model_validate_json(result.content) == Weather(city="Paris", degrees=21)
    sent = server.last.body["response_format"]
    assert sent["type"] == "json_schema"
    assert sent["json_schema"]["name"] == "Weather"
    assert sent["json_schema"]["strict"] is True
    assert sent["json_schema"]["schema"]["additionalProperties"] is False


async def test_an_answer_that_is_no_such_object(server: OpenAIServer, make: MakeClient) -> None:
    client = make(max_corrections=0)
    server.script(Answer('{"city": "Paris", "degrees": "secret"}'), Answer('{"city": "Pa', finish="length"))

    with pytest.raises(
        BadResponseError, match="no Weather: degrees: Input should be a valid integer"
    ) as failed:
        await client.create(HELLO, json_output=Weather)
    assert "secret" not in str(failed.value)
    with pytest.raises(BadResponseError, match="cut off at the limit of tokens: raise max_tokens"):
        await client.create(HELLO, json_output=Weather)
    assert client.actual_usage() == RequestUsage(14, 6), "both were paid for"


async def test_json_output(server: OpenAIServer, make: MakeClient) -> None:
    client = make(max_corrections=0)
    server.script(Answer('{"a": 1}'), Answer("text"), Answer("[1]"), Answer("no json"))

    assert (await client.create(HELLO, json_output=True)).content == '{"a": 1}'
    assert server.last.body["response_format"] == {"type": "json_object"}
    assert (await client.create(HELLO, json_output=False)).content == "text"
    assert server.last.body["response_format"] == {"type": "text"}
    with pytest.raises(BadResponseError, match="no JSON object"):
        await client.create(HELLO, json_output=True)
    with pytest.raises(BadResponseError, match="no JSON"):
        await client.create(HELLO, json_output=True)


async def test_the_clients_own_response_format(server: OpenAIServer, make: MakeClient) -> None:
    client = make(response_format=Weather)
    server.script(*[Answer('{"city": "Paris", "degrees": 21}')] * 3)

    await client.create(HELLO)
    assert server.last.body["response_format"]["type"] == "json_schema"
    await client.create(HELLO, json_output=True)
    assert server.last.body["response_format"] == {"type": "json_object"}
    await client.create(HELLO, json_output=True, extra_create_args={"response_format": {"type": "text"}})
    assert server.last.body["response_format"] == {"type": "text"}


async def test_a_refusal(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    server.script(Answer(None, refusal="I won't."))

    result = await client.create(HELLO, json_output=Weather)

    assert (result.content, result.finish_reason) == ("I won't.", "content_filter")


# Reasoning, logprobs, reasons to stop


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_in_a_field_of_its_own(
    server: OpenAIServer, client: OpenAIChatCompletionClient, field: str
) -> None:
    server.script(Answer("42", reasoning="six times seven", reasoning_field=field))

    result = await client.create(HELLO)

    assert (result.content, result.thought) == ("42", "six times seven")


async def test_reasoning_in_the_text(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    server.script(Answer("<think>\nsix times seven\n</think>\n\n42"))

    result = await client.create(HELLO)

    assert (result.content, result.thought) == ("42", "six times seven")


async def test_reasoning_that_began_in_the_prompt(
    server: OpenAIServer, make: MakeClient, info: ModelInfo
) -> None:
    client = make(model_info={**info, "family": "r1"})
    server.script(Answer("six times seven</think>42"))

    result = await client.create(HELLO)

    assert (result.content, result.thought) == ("42", "six times seven")


async def test_reasoning_before_calls(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    server.script(Answer("I'll add.", [Call("add")], reasoning="hm"))

    assert (await client.create(HELLO, tools=[ADD])).thought == "hm\nI'll add."


async def test_logprobs(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    top = [
        {"token": "Hi", "logprob": -0.1, "bytes": [72, 105]},
        {"token": "Yo", "logprob": -2.0, "bytes": None},
    ]
    server.script(
        Answer("Hi", logprobs=[{"token": "Hi", "logprob": -0.1, "bytes": [72, 105], "top_logprobs": top}])
    )

    result = await client.create(HELLO, extra_create_args={"logprobs": True, "top_logprobs": 2})

    assert server.last.body["top_logprobs"] == 2
    assert result.logprobs == [
        ChatCompletionTokenLogprob(
            token="Hi",
            logprob=-0.1,
            bytes=[72, 105],
            top_logprobs=[TopLogprob(-0.1, [72, 105]), TopLogprob(-2.0, None)],
        )
    ]


@pytest.mark.parametrize(
    ("sent", "read"),
    [("length", "length"), ("content_filter", "content_filter"), ("eos", "unknown"), ("STOP", "stop")],
)
async def test_reasons_to_stop(
    server: OpenAIServer, client: OpenAIChatCompletionClient, sent: str, read: str
) -> None:
    server.script(Answer("a", finish=sent))
    assert (await client.create(HELLO)).finish_reason == read


async def test_calls_count_although_the_server_says_stop(
    server: OpenAIServer, client: OpenAIChatCompletionClient
) -> None:
    server.script(Answer(None, [Call("add")], finish="stop"))
    assert (await client.create(HELLO, tools=[ADD])).finish_reason == "function_calls"


# What models can't do


@pytest.mark.parametrize(
    ("lacks", "asked", "said"),
    [
        ("function_calling", {"tools": [ADD]}, "takes no tools"),
        ("json_output", {"json_output": True}, "no JSON output"),
        ("structured_output", {"json_output": Weather}, "no structured output"),
    ],
)
async def test_requests_beyond_the_model_info_are_refused(
    server: OpenAIServer, make: MakeClient, info: ModelInfo, lacks: str, asked: dict[str, Any], said: str
) -> None:
    client = make(model_info={**info, lacks: False})

    with pytest.raises(BadRequestError, match=said):
        await client.create(HELLO, **asked)

    assert server.requests == []


# Calls in the text, and tools through a schema


async def test_calls_in_the_text_count_in_lenient_mode_only(server: OpenAIServer, make: MakeClient) -> None:
    text = '```json\n{"name": "add", "arguments": {"a": 1}}\n```'
    server.script(Answer(text), Answer(text))

    assert (await make().create(HELLO, tools=[ADD])).content == text
    result = await make(tool_mode="lenient").create(HELLO, tools=[ADD])

    assert isinstance(result.content, list)
    (call,) = result.content
    assert (call.name, json.loads(call.arguments)) == ("add", {"a": 1})
    assert result.finish_reason == "function_calls"
    assert server.last.body["tools"]


async def test_lenient_mode_describes_tools_to_models_that_take_none(
    server: OpenAIServer, make: MakeClient, info: ModelInfo
) -> None:
    client = make(tool_mode="lenient", model_info={**info, "function_calling": False})
    server.script(Answer('{"name": "add", "arguments": {"a": 1}}'))

    result = await client.create([SystemMessage(content="Be kind."), *HELLO], tools=[ADD])

    assert result.finish_reason == "function_calls"
    assert "tools" not in server.last.body
    (kind, told, _) = server.last.body["messages"]
    assert kind["content"] == "Be kind."
    assert told["content"].startswith("You can call these tools")


async def test_tools_through_a_schema(server: OpenAIServer, make: MakeClient, info: ModelInfo) -> None:
    client = make(tool_mode="schema", model_info={**info, "function_calling": False})
    server.script(Answer('{"name": "add", "arguments": {"a": 1}}'), Answer('{"answer": "It is 3."}'))

    first = await client.create(HELLO, tools=[ADD])
    assert isinstance(first.content, list)
    asked = server.last.body
    assert "tools" not in asked
    schema = asked["response_format"]["json_schema"]["schema"]
    assert [list(choice["properties"]) for choice in schema["anyOf"]] == [["name", "arguments"], ["answer"]]
    result = FunctionExecutionResult(content="3", name="add", call_id=first.content[0].id, is_error=False)
    second = await client.create(
        [
            *HELLO,
            AssistantMessage(content=first.content, source="bot"),
            FunctionExecutionResultMessage(content=[result]),
        ],
        tools=[ADD],
    )

    assert (second.content, second.finish_reason) == ("It is 3.", "stop")
    assert server.last.body["messages"][-2:] == [
        {"role": "assistant", "name": "bot", "content": '{"name": "add", "arguments": {"a": 1}}'},
        {"role": "user", "content": f"Result of add: 3\n{AFTER_RESULTS}"},
    ]


async def test_a_schema_for_tools_and_for_the_answer(server: OpenAIServer, make: MakeClient) -> None:
    client = make(tool_mode="schema")
    server.script(Answer('{"answer": {"city": "Paris", "degrees": 21}}'))

    result = await client.create(HELLO, tools=[ADD], json_output=Weather)

    assert result.content == '{"city": "Paris", "degrees": 21}'


@pytest.mark.parametrize(("choice", "kinds"), [("required", 1), (Tool(), 1), ("auto", 2)])
async def test_the_schema_has_a_choice_for_each_allowed_reply(
    server: OpenAIServer, make: MakeClient, choice: Any, kinds: int
) -> None:
    server.script(Answer('{"name": "add", "arguments": {"a": 1}}'))

    await make(tool_mode="schema").create(HELLO, tools=[Tool()], tool_choice=choice)

    assert len(server.last.body["response_format"]["json_schema"]["schema"]["anyOf"]) == kinds


async def test_an_answer_and_no_call_where_none_may_be_called(server: OpenAIServer, make: MakeClient) -> None:
    server.script(Answer('{"answer": "a"}'))

    asked = await make(tool_mode="schema").create(HELLO, tools=[ADD], tool_choice="none")

    assert asked.content == "a"
    body = server.last.body
    (choice,) = body["response_format"]["json_schema"]["schema"]["anyOf"]
    assert list(choice["properties"]) == ["answer"]
    assert body["messages"][-1]["content"] == "Answer now, without calling a tool."


# Time, retries, cancellation


async def test_a_slow_answer(server: OpenAIServer, make: MakeClient) -> None:
    server.default = Slow()
    limits = growing_limits()

    async def is_given_up() -> bool:
        with pytest.raises(ModelTimeoutError) as failed:
            await make(timeout=next(limits)).create(HELLO)
        assert isinstance(failed.value, TimeoutError)
        return server.hung_up.is_set()

    await eventually(is_given_up, within=30)


async def test_cancelling_ends_the_request(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    server.script(Slow(), Answer("after"))
    token = CancellationToken()
    asking = asyncio.ensure_future(client.create(HELLO, cancellation_token=token))
    await eventually(lambda: server.requests)

    token.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asking
    await eventually(server.hung_up.is_set)
    assert (await client.create(HELLO)).content == "after"


async def test_nothing_is_sent_with_a_cancelled_token(
    server: OpenAIServer, client: OpenAIChatCompletionClient
) -> None:
    token = CancellationToken()
    token.cancel()

    with pytest.raises(asyncio.CancelledError):
        await client.create(HELLO, cancellation_token=token)

    assert server.requests == []


class Pauses:
    """Takes the place of sleeping."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


async def test_rate_limits_and_overload_are_tried_again(server: OpenAIServer, make: MakeClient) -> None:
    pauses = Pauses()
    client = make(max_retries=3, retries=ModelRetries(sleep=pauses, random=lambda: 0.0))
    server.script(rate_limited(retry_after=7), overloaded(), Cut(), Answer("at last"))

    result = await client.create(HELLO)

    assert result.content == "at last"
    assert len(server.requests) == 4, "the openai package must not try by itself as well"
    assert len(pauses.seconds) == 3
    assert pauses.seconds[0] >= 7


async def test_after_the_last_attempt_the_error_is_raised(server: OpenAIServer, make: MakeClient) -> None:
    client = make(max_retries=1, retries=ModelRetries(sleep=Pauses()))
    server.script(rate_limited(), rate_limited(retry_after=2))

    with pytest.raises(RateLimitError) as failed:
        await client.create(HELLO)

    assert failed.value.retry_after == 2.0
    assert len(server.requests) == 2


async def test_requests_at_once(server: OpenAIServer, client: OpenAIChatCompletionClient) -> None:
    server.default = Answer("a")

    results = await asyncio.gather(*(client.create(HELLO) for _ in range(20)))

    assert [result.content for result in results] == ["a"] * 20


# Odd servers


async def test_arguments_as_an_object_and_no_id(
    server: OpenAIServer, client: OpenAIChatCompletionClient
) -> None:
    call = {"function": {"name": "my add", "arguments": {"a": 1}}}
    body = {"choices": [{"message": {"content": None, "tool_calls": [call, {"type": "custom"}]}}]}
    server.script(Raw(json.dumps(body)))

    result = await client.create(HELLO, tools=[ADD])

    assert isinstance(result.content, list)
    (read,) = result.content
    assert (read.name, read.arguments) == ("my_add", '{"a": 1}')
    assert read.id


async def test_a_call_without_arguments_has_an_empty_object(
    server: OpenAIServer, client: OpenAIChatCompletionClient
) -> None:
    server.script(Answer(None, [Call("add", "")]))
    result = await client.create(HELLO, tools=[ADD])
    assert isinstance(result.content, list)
    assert result.content[0].arguments == "{}"


# The life of a client

ANSWER = '{"choices": [{"message": {"content": "a"}}]}'


async def test_a_closed_client(server: OpenAIServer, make: MakeClient) -> None:
    server.script(Answer("a"))
    async with make() as client:
        await client.create(HELLO)
    await client.close()

    with pytest.raises(BadRequestError, match="closed"):
        await client.create(HELLO)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # nobody closed the client
def test_one_event_loop_after_the_other(
    server: OpenAIServer, info: ModelInfo, caplog: pytest.LogCaptureFixture
) -> None:
    """The finding: the second chat of a program that is not async was refused, though it can't make another client."""
    client = OpenAIChatCompletionClient("m", base_url=server.url, model_info=info, max_retries=0)
    server.script(Answer("a"), Answer("b"))

    said = [asyncio.run(client.create(HELLO)).content for _ in range(2)]

    asyncio.run(client.close())
    del client
    gc.collect()
    assert said == ["a", "b"]
    assert caplog.text == "", "the end of the first connection was tried in the second loop"


def test_another_event_loop_that_lives_is_refused(server: OpenAIServer, info: ModelInfo) -> None:
    client = OpenAIChatCompletionClient("m", base_url=server.url, model_info=info, max_retries=0)
    server.script(Raw(ANSWER, headers={"connection": "close"}))

    with asyncio.Runner() as first:
        assert first.run(client.create(HELLO)).content == "a"
        with pytest.raises(BadRequestError, match="another event loop: make one for each"):
            asyncio.run(client.create(HELLO))
        first.run(client.close())


def test_another_event_loop_is_refused_with_connections_of_ones_own(
    server: OpenAIServer, info: ModelInfo
) -> None:
    client = OpenAIChatCompletionClient(
        "m", base_url=server.url, model_info=info, max_retries=0, http_client=httpx2.AsyncClient()
    )
    server.script(Raw(ANSWER, headers={"connection": "close"}))

    assert asyncio.run(client.create(HELLO)).content == "a"
    with pytest.raises(BadRequestError, match="another event loop: make one for each"):
        asyncio.run(client.create(HELLO))


async def test_no_server(make: MakeClient) -> None:
    client = make(base_url="http://127.0.0.1:9/v1")

    with pytest.raises(ModelConnectionError, match=r"http://127.0.0.1:9/v1.*Check the base_url"):
        await client.create(HELLO)


def test_importing_and_making_a_client_loads_nothing_of_openai() -> None:
    script = (
        "import sys\n"
        "from callboard.models.openai import OpenAIChatCompletionClient\n"
        "OpenAIChatCompletionClient('gpt-4o', api_key='k')\n"
        "assert 'openai' not in sys.modules and 'httpx2' not in sys.modules and 'tiktoken' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
