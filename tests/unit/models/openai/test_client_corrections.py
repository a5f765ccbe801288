"""An answer that can't be used is asked for again, with what was wrong in words."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from callboard.errors import SettingValueError
from callboard.memory.llm_messages import (
    AssistantMessage,
    FunctionCall,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    UserMessage,
)
from callboard.models import CreateResult, ModelInfo, ModelSettings, RequestUsage
from callboard.models.errors import BadResponseError
from callboard.models.openai import OpenAIChatCompletionClient
from tests.helpers.openai_server import Answer, Call, OpenAIServer

from .conftest import MakeClient

HELLO: list[LLMMessage] = [UserMessage(content="How warm is it in Oslo?", source="ada")]
TOOL = {"name": "look_up", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
OSLO = '{"name": "look_up", "arguments": {"city": "Oslo"}}'
ROME = '{"name": "look_up", "arguments": {"city": "Rome"}}'
ANSWERED: list[LLMMessage] = [
    *HELLO,
    AssistantMessage(
        content=[FunctionCall(id="1", name="look_up", arguments='{"city":"Oslo"}')], source="bot"
    ),
    FunctionExecutionResultMessage(
        content=[FunctionExecutionResult(content="21 degrees", name="look_up", call_id="1", is_error=False)]
    ),
]
TEXT_MODES = ("lenient", "schema")


class Weather(BaseModel):
    city: str
    degrees: int


async def test_the_model_learns_what_is_wrong(server: OpenAIServer, make: MakeClient) -> None:
    client = make()
    server.script(Answer('{"city": "Oslo"}'), Answer('{"city": "Oslo", "degrees": 21}'))

    result = await client.create(HELLO, json_output=Weather)

    assert result.content == '{"city": "Oslo", "degrees": 21}'
    *before, said, objection = server.last.body["messages"]
    assert before == server.requests[0].body["messages"]
    assert said == {"role": "assistant", "content": '{"city": "Oslo"}'}
    assert objection["role"] == "user"
    assert "degrees: Field required" in objection["content"]
    assert result.usage == client.total_usage() == RequestUsage(14, 6)


async def test_it_is_asked_so_often_and_no_more(server: OpenAIServer, make: MakeClient) -> None:
    server.default = Answer("[]")
    for corrections in (0, 2):
        server.requests.clear()
        with pytest.raises(BadResponseError):
            await make(max_corrections=corrections).create(HELLO, json_output=Weather)
        assert len(server.requests) == 1 + corrections


async def test_an_answer_that_was_cut_off_would_be_cut_off_again(
    server: OpenAIServer, make: MakeClient
) -> None:
    server.default = Answer('{"ci', finish="length")
    with pytest.raises(BadResponseError, match="raise max_tokens"):
        await make().create(HELLO, json_output=Weather)
    assert len(server.requests) == 1


async def test_a_stream_is_corrected_while_nothing_of_it_was_passed_on(
    server: OpenAIServer, make: MakeClient
) -> None:
    server.script(Answer('{"answer": 3}'), Answer('{"answer": {"city": "Oslo", "degrees": 21}}'))
    *pieces, result = [
        item
        async for item in make(tool_mode="schema").create_stream(HELLO, tools=[TOOL], json_output=Weather)
    ]
    assert pieces == ['{"city": "Oslo", "degrees": 21}']
    assert isinstance(result, CreateResult)
    assert result.usage == RequestUsage(14, 6)

    server.script(Answer('{"city": "Oslo"}'))
    with pytest.raises(BadResponseError):
        async for _ in make().create_stream(HELLO, json_output=Weather):
            pass


@pytest.mark.parametrize("mode", TEXT_MODES)
@pytest.mark.parametrize("tools", [[TOOL], []])
async def test_nor_one_that_a_server_passes_on_all_the_same(
    server: OpenAIServer, make: MakeClient, mode: str, tools: list[dict[str, object]]
) -> None:
    client = make(tool_mode=mode)
    server.script(Answer(calls=[Call("look_up", '{"city": "Oslo"}')]), Answer("21 degrees"))
    result = await client.create(HELLO, tools=tools, tool_choice="none" if tools else "auto")
    assert result.content == "21 degrees"

    server.default = Answer(calls=[Call("look_up", '{"city": "Oslo"}')])
    with pytest.raises(BadResponseError, match="a call of look_up, and no tool was offered"):
        await client.create(HELLO, tools=tools, tool_choice="none" if tools else "auto")


@pytest.mark.parametrize("mode", TEXT_MODES)
@pytest.mark.parametrize("function_calling", [True, False])
async def test_no_call_where_none_may_be_made(
    server: OpenAIServer, make: MakeClient, info: ModelInfo, mode: str, function_calling: bool
) -> None:
    client = make(tool_mode=mode, model_info={**info, "function_calling": function_calling})
    server.script(Answer(OSLO), Answer("It is warm."))

    result = await client.create(HELLO, tools=[TOOL], tool_choice="none")

    assert (result.content, result.finish_reason) == ("It is warm.", "stop")
    assert "can't call a tool now" in server.last.body["messages"][-1]["content"]


@pytest.mark.parametrize("mode", TEXT_MODES)
async def test_a_raw_call_is_no_answer_where_no_tools_are_offered(
    server: OpenAIServer, make: MakeClient, mode: str
) -> None:
    server.script(Answer(OSLO), Answer("It is warm."))
    assert (await make(tool_mode=mode).create(ANSWERED)).content == "It is warm."
    told = server.last.body["messages"][-1]["content"]
    assert told == "The result of look_up is: 21 degrees. Now answer my question with it, in words."

    server.script(Answer(ROME), Answer("It is warm."))
    assert (await make(tool_mode=mode).create(ANSWERED)).content == "It is warm."
    assert "can't call a tool now" in server.last.body["messages"][-1]["content"]

    server.default = Answer(ROME)
    with pytest.raises(BadResponseError, match="a call of look_up, and no tool was offered"):
        await make(tool_mode=mode).create(ANSWERED)


async def test_json_that_was_asked_for_is_no_call(server: OpenAIServer, make: MakeClient) -> None:
    server.default = Answer(OSLO)
    assert (await make(tool_mode="lenient").create(ANSWERED, json_output=True)).content == OSLO
    assert (await make(tool_mode="lenient").create(HELLO)).content == OSLO, "nothing is known of a tool"


@pytest.mark.parametrize("mode", TEXT_MODES)
async def test_a_call_that_was_answered_is_not_made_again(
    server: OpenAIServer, make: MakeClient, mode: str
) -> None:
    server.script(Answer(OSLO), Answer("It has 21 degrees."))

    result = await make(tool_mode=mode).create(ANSWERED, tools=[TOOL])

    assert result.content == "It has 21 degrees."
    last = server.last.body
    assert "21 degrees" in last["messages"][-1]["content"]
    assert "tools" not in last


async def test_of_several_calls_the_new_ones_are_made(server: OpenAIServer, make: MakeClient) -> None:
    again = Call("look_up", '{"city": "Oslo"}', "2")
    server.script(Answer(calls=[again, Call("look_up", '{"city": "Rome"}', "3")]))
    result = await make(tool_mode="lenient").create(ANSWERED, tools=[TOOL])
    assert isinstance(result.content, list)
    assert [call.id for call in result.content] == ["3"]


async def test_a_repeated_call_in_a_text_is_the_beginning_of_a_circle(
    server: OpenAIServer, make: MakeClient
) -> None:
    server.script(Answer(f'{OSLO}\n{ROME}\n{{"name": "look_'), Answer("It has 21 degrees."))
    result = await make(tool_mode="lenient").create(ANSWERED, tools=[TOOL])
    assert result.content == "It has 21 degrees."


async def test_in_native_mode_a_call_may_be_repeated(server: OpenAIServer, make: MakeClient) -> None:
    server.script(Answer(calls=[Call("look_up", '{"city": "Oslo"}', "2")]))
    result = await make().create(ANSWERED, tools=[TOOL])
    assert isinstance(result.content, list)
    assert len(server.requests) == 1


async def test_a_new_question_may_need_the_same_call(server: OpenAIServer, make: MakeClient) -> None:
    server.script(Answer(OSLO))
    messages = [*ANSWERED, AssistantMessage(content="Warm.", source="bot"), *HELLO]
    result = await make(tool_mode="lenient").create(messages, tools=[TOOL])
    assert isinstance(result.content, list)


async def test_a_tool_that_there_is_not(server: OpenAIServer, make: MakeClient) -> None:
    server.script(Answer('{"name": "fly", "arguments": {}}'), Answer(ROME))
    result = await make(tool_mode="lenient").create(HELLO, tools=[TOOL])
    assert isinstance(result.content, list)
    assert "There is no tool fly, only look_up" in server.last.body["messages"][-1]["content"]


def test_a_budget_reckons_with_every_answer(make: MakeClient) -> None:
    client = make(tool_mode="native", max_corrections=2)
    assert client.most_answers() == 1
    assert client.most_answers(tools=[TOOL]) == 1
    assert client.most_answers(json_output=True) == 3
    assert make(tool_mode="schema").most_answers() == 2


def test_the_number_is_checked(make: MakeClient) -> None:
    assert ModelSettings(max_corrections=0).max_corrections == 0
    with pytest.raises(SettingValueError):
        make(max_corrections=-1)
    with pytest.raises(SettingValueError):
        ModelSettings(max_corrections=-1)


async def streamed(client: OpenAIChatCompletionClient, **asked: Any) -> tuple[list[str], CreateResult]:
    """The pieces of a stream of lenient mode, and its result."""
    *pieces, result = [item async for item in client.create_stream(ANSWERED, **asked)]
    assert isinstance(result, CreateResult)
    return [str(piece) for piece in pieces], result


CIRCLES = [
    Answer(OSLO),
    Answer(f"```json\n{OSLO}\n```"),
    Answer(f"\n<tool_call>\n{OSLO}\n</tool_call>"),
    Answer(f"<think>Oslo it is.</think>\n{OSLO}"),
    Answer(OSLO, reasoning="Oslo it is."),
    Answer("Let me see.", calls=[Call("look_up", '{"city": "Oslo"}', "2")]),
]


@pytest.mark.parametrize("circle", CIRCLES)
async def test_a_stream_goes_round_in_no_circle_and_shows_no_call(
    server: OpenAIServer, make: MakeClient, circle: Answer
) -> None:
    server.script(circle, Answer("It has 21 degrees."))
    pieces, result = await streamed(make(tool_mode="lenient"), tools=[TOOL])
    assert result.content == "It has 21 degrees."
    assert "".join(pieces).endswith("It has 21 degrees.")
    assert "look_up" not in "".join(pieces)
    assert len(server.requests) == 2


@pytest.mark.parametrize("tools", [[TOOL], []])
async def test_nor_is_a_call_shown_where_none_may_be_made(
    server: OpenAIServer, make: MakeClient, tools: list[dict[str, object]]
) -> None:
    server.script(Answer(OSLO), Answer("It is warm."))
    pieces, _ = await streamed(
        make(tool_mode="lenient"), tools=tools, tool_choice="none" if tools else "auto"
    )
    assert pieces == ["It is warm."] or "".join(pieces) == "It is warm."


QUOTES = [
    f"The mail says: <tool_call>{ROME}</tool_call> I think it is spam.",
    f"I will NOT do it without a yes:\n```json\n{ROME}\n```",
    f"```json\n{ROME}\n```\nsays the mail, and it is spam.",
    f"{ROME}\n[so says the mail; I will not do it]",
]


@pytest.mark.parametrize("text", QUOTES)
@pytest.mark.parametrize("mode", TEXT_MODES)
async def test_a_quoted_call_is_not_made(
    server: OpenAIServer, make: MakeClient, text: str, mode: str
) -> None:
    client = make(tool_mode=mode)
    server.script(Answer(text), Answer(text))
    assert (await client.create(ANSWERED, tools=[TOOL])).content == text
    pieces, result = await streamed(client, tools=[TOOL])
    assert (result.content, "".join(pieces)) == (text, text)
    assert len(server.requests) == 2


async def test_words_come_in_pieces_in_lenient_mode_too(server: OpenAIServer, make: MakeClient) -> None:
    server.script(Answer("It has 21 degrees."))
    pieces, _ = await streamed(make(tool_mode="lenient"), tools=[TOOL])
    assert len(pieces) > 1
