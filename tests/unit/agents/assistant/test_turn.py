"""What an assistant does in a turn, and in which order. The orders and texts are those of AutoGen 0.7.5."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from callboard.agents import AssistantAgent
from callboard.agents.errors import NoResponseError
from callboard.core.cancellation import CancellationToken
from callboard.memory.llm_messages import (
    AssistantMessage,
    FunctionCall,
    Image,
    LLMMessage,
    UserMessage,
)
from callboard.messages import (
    HandoffMessage,
    ModelClientStreamingChunkEvent,
    MultiModalMessage,
    StopMessage,
    StructuredMessage,
    TextMessage,
    ToolCallRequestEvent,
    ToolCallSummaryMessage,
)
from callboard.models import CreateResult, ReplayChatCompletionClient, RequestUsage, Streamed
from callboard.models.errors import ModelConnectionError
from callboard.runs import a_run
from callboard.ui import Console

from .talking import assistant, call, calls, prompts, remembered, said, says, short


class Rating(BaseModel):
    score: int


def one() -> str:
    """Returns one."""
    return "1"


def two() -> str:
    """Returns two."""
    return "2"


def fail() -> str:
    """Fails."""
    raise LookupError("nothing there")


TOOLS = [one, two, fail]


@pytest.mark.parametrize(
    ("settings", "answers", "expected"),
    [
        ({}, ["hello"], [("TextMessage", "hello"), ("result", 1)]),
        (
            {},
            [says("hello", thought="hm")],
            [("thought", "hm"), ("TextMessage", "hello"), ("result", 2)],
        ),
        (
            {"model_client_stream": True},
            ["hello there"],
            [("piece", "hello "), ("piece", "there"), ("TextMessage", "hello there"), ("result", 1)],
        ),
        (
            {},
            [calls("one", "two")],
            [
                ("calls", "one", "two"),
                ("results", "1", "2"),
                ("ToolCallSummaryMessage", "1\n2"),
                ("result", 3),
            ],
        ),
        (
            {"reflect_on_tool_use": True},
            [calls("one", thought="first one"), says("it is 1", thought="easy")],
            [
                ("thought", "first one"),
                ("calls", "one"),
                ("results", "1"),
                ("thought", "easy"),
                ("TextMessage", "it is 1"),
                ("result", 5),
            ],
        ),
        (
            {"reflect_on_tool_use": True, "model_client_stream": True},
            [calls("one"), "it is 1"],
            [
                ("calls", "one"),
                ("results", "1"),
                ("piece", "it "),
                ("piece", "is "),
                ("piece", "1"),
                ("TextMessage", "it is 1"),
                ("result", 3),
            ],
        ),
        (
            {"max_tool_iterations": 3},
            [calls("one"), calls("two"), "done"],
            [
                ("calls", "one"),
                ("results", "1"),
                ("calls", "two"),
                ("results", "2"),
                ("TextMessage", "done"),
                ("result", 5),
            ],
        ),
        (
            {"max_tool_iterations": 2},
            [calls("one"), calls("two")],
            [
                ("calls", "one"),
                ("results", "1"),
                ("calls", "two"),
                ("results", "2"),
                ("ToolCallSummaryMessage", "2"),
                ("result", 5),
            ],
        ),
        (
            {"tool_call_summary_format": "{tool_name}({arguments}) -> {result} {is_error}"},
            [calls("one", "two")],
            [
                ("calls", "one", "two"),
                ("results", "1", "2"),
                ("ToolCallSummaryMessage", "one({}) -> 1 False\ntwo({}) -> 2 False"),
                ("result", 3),
            ],
        ),
        (
            {
                "tool_call_summary_format": "unused",
                "tool_call_summary_formatter": lambda call, result: f"{call.name}={result.content}",
            },
            [calls("one")],
            [("calls", "one"), ("results", "1"), ("ToolCallSummaryMessage", "one=1"), ("result", 3)],
        ),
    ],
)
async def test_what_is_said_in_a_turn(
    settings: dict[str, Any], answers: list[Any], expected: list[Any]
) -> None:
    agent, _ = assistant(*answers, tools=TOOLS, **settings)
    assert await said(agent) == expected


@pytest.mark.parametrize(
    ("asked", "result"),
    [
        (call("one", "{"), "!"),
        (call("one", '{"x": 1}'), ""),
        (call("fail"), "!"),
        (call("nobody"), "!"),
    ],
)
async def test_what_goes_wrong_with_a_call_is_its_result(asked: FunctionCall, result: str) -> None:
    agent, _ = assistant([asked], tools=TOOLS)
    (_, executed, summary, _) = await said(agent)
    assert executed[1].startswith(result)
    assert summary[0] == "ToolCallSummaryMessage"
    assert len(await remembered(agent)) == 3


async def test_the_model_gets_the_system_message_the_task_and_the_tools() -> None:
    agent, model = assistant(calls("one"), "done", tools=TOOLS, reflect_on_tool_use=True, system_message="be")
    await agent.run(task="go")
    thinking, reflecting = model.create_calls
    assert prompts(model)[0] == [("SystemMessage", "be"), ("UserMessage", "go")]
    assert [tool["name"] for tool in thinking["tools"]] == ["one", "two", "fail"]
    assert prompts(model)[1][2:] == [
        ("AssistantMessage", ["one"]),
        ("FunctionExecutionResultMessage", ["one"]),
    ]
    assert list(reflecting["tools"]) == []
    assert reflecting["tool_choice"] == "none"


@pytest.mark.parametrize(("message", "first"), [(None, "UserMessage"), ("", "SystemMessage")])
async def test_the_system_message_may_be_left_out(message: str | None, first: str) -> None:
    agent, model = assistant("hi", system_message=message)
    await agent.run(task="go")
    assert prompts(model)[0][0][0] == first


async def test_it_remembers_its_conversation() -> None:
    agent, model = assistant("one", "two")
    await agent.run(task="first")
    await agent.run(task="second")
    assert prompts(model)[1][1:] == [
        ("UserMessage", "first"),
        ("AssistantMessage", "one"),
        ("UserMessage", "second"),
    ]


async def test_thoughts_stay_in_its_context() -> None:
    agent, _ = assistant(
        calls("one", thought="why"), says("so", thought="because"), tools=TOOLS, max_tool_iterations=2
    )
    await agent.run(task="go")
    messages = await agent.model_context.get_messages()
    assert [one.thought for one in messages if isinstance(one, AssistantMessage)] == ["why", "because"]


async def test_usage_and_source_are_told() -> None:
    agent, _ = assistant(calls("one"), says("done"), tools=TOOLS, max_tool_iterations=2)
    result = await agent.run(task="go")
    _, asked, executed, answer = result.messages
    assert [one.models_usage for one in (asked, executed, answer)] == [
        RequestUsage(5, 3),
        None,
        RequestUsage(7, 2),
    ]
    assert {one.source for one in (asked, executed, answer)} == {"ada"}


async def test_pieces_name_the_message_that_they_become() -> None:
    """AutoGen's name the thought where there is one, and those of a first round the message of the last."""
    agent, _ = assistant(
        Streamed(["a", "b"], thought="hm"), model_client_stream=True, tools=TOOLS, max_tool_iterations=2
    )
    items = [item async for item in agent.run_stream(task="go", output_task_messages=False)]
    pieces = [item for item in items if isinstance(item, ModelClientStreamingChunkEvent)]
    (message,) = [item for item in items if isinstance(item, TextMessage)]
    assert {piece.full_message_id for piece in pieces} == {message.id}


async def test_a_summary_has_the_calls_and_results() -> None:
    agent, _ = assistant(calls("one", "fail"), tools=TOOLS)
    message = (await agent.run(task="go")).messages[-1]
    assert isinstance(message, ToolCallSummaryMessage)
    assert [one.name for one in message.tool_calls] == ["one", "fail"]
    assert [one.is_error for one in message.results] == [False, True]


@pytest.mark.parametrize("reflects", [False, True])
async def test_structured_answers(reflects: bool) -> None:
    """AutoGen forgets the format where the model puts results into words."""
    answers = [calls("one"), '{"score": 5}'] if reflects else ['{"score": 5}']
    agent, model = assistant(
        *answers, tools=TOOLS, output_content_type=Rating, output_content_type_format="{score} points"
    )
    message = (await agent.run(task="go")).messages[-1]
    assert isinstance(message, StructuredMessage)
    assert message.content == Rating(score=5)
    assert message.to_text() == "5 points"
    assert all(one["json_output"] is Rating for one in model.create_calls)
    assert StructuredMessage[Rating] in agent.produced_message_types


async def test_a_model_that_asks_for_tools_when_it_is_to_put_results_into_words_is_an_error() -> None:
    agent, _ = assistant(calls("one"), calls("one"), tools=TOOLS, reflect_on_tool_use=True)
    with pytest.raises(NoResponseError, match="Reflect on tool use produced no valid text response"):
        await agent.run(task="go")


async def test_a_handoff_that_is_received_brings_its_context() -> None:
    agent, model = assistant("hi", system_message=None)
    along: list[LLMMessage] = [UserMessage(content="before", source="x")]
    await agent.run(task=HandoffMessage(content="yours", source="bob", target="ada", context=along))
    assert prompts(model)[0] == [("UserMessage", "before"), ("UserMessage", "yours")]


async def test_pictures_are_shown_only_to_models_that_see() -> None:
    from callboard.agents import AssistantAgent
    from callboard.models import ModelFamily, ModelInfo, ReplayChatCompletionClient

    picture = Image.from_url("https://example.com/a.png")
    task = MultiModalMessage(content=["look", picture], source="user")
    blind: ModelInfo = {
        "vision": False,
        "function_calling": True,
        "json_output": True,
        "family": ModelFamily.UNKNOWN,
        "structured_output": True,
    }
    seen: list[Any] = []
    for info in (None, blind):
        model = ReplayChatCompletionClient(["nice"], info)
        await AssistantAgent("ada", model, system_message=None).run(task=task)
        seen.append(model.create_calls[0]["messages"][0].content)
    assert seen == [["look", picture], "look\n<image>"]


async def test_no_messages_mean_go_on() -> None:
    agent, model = assistant("one", "two", system_message=None)
    await agent.run(task="go")
    await agent.run()
    assert prompts(model)[1] == [("UserMessage", "go"), ("AssistantMessage", "one")]


async def test_reset_forgets() -> None:
    agent, _ = assistant("one")
    await agent.run(task="go")
    await agent.on_reset(CancellationToken())
    assert await remembered(agent) == []


async def test_what_happened_is_in_the_response() -> None:
    agent, _ = assistant(calls("one", thought="hm"), tools=TOOLS)
    response = await agent.on_messages([StopMessage(content="go", source="user")], CancellationToken())
    assert [short(item) for item in response.inner_messages or ()] == [
        ("thought", "hm"),
        ("calls", "one"),
        ("results", "1"),
    ]


async def test_errors_of_the_model_are_raised() -> None:
    agent, _ = assistant(ModelConnectionError("m", "gone"))
    with pytest.raises(ModelConnectionError):
        await agent.run(task="go")


async def test_events_come_as_they_happen() -> None:
    agent, model = assistant(calls("one"), "done", tools=TOOLS, max_tool_iterations=2)
    stream = agent.run_stream(task="go", output_task_messages=False)
    first = await anext(stream)
    assert isinstance(first, ToolCallRequestEvent)
    assert len(model.create_calls) == 1
    assert short(await anext(stream)) == ("results", "1")
    assert len(model.create_calls) == 1
    await stream.aclose()


@pytest.mark.parametrize(
    ("answer", "ended", "told"),
    [
        (
            {"content": "The sea is", "finish_reason": "length"},
            "cut_off",
            "(the answer was cut off at the limit of tokens)",
        ),
        ({"content": "I", "finish_reason": "content_filter"}, "filtered", "content filter"),
        ({"content": "", "finish_reason": "stop"}, "empty", "(the answer is empty)"),
        ({"content": "Fine.", "finish_reason": "stop"}, None, "Fine."),
    ],
)
async def test_readers_are_told_how_an_answer_ended(
    answer: dict[str, Any], ended: str | None, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = CreateResult(**answer, usage=RequestUsage(1, 1), cached=False)
    ada = AssistantAgent("ada", ReplayChatCompletionClient([result]))
    said = await Console(ada.run_stream(task="A line"))
    assert said.messages[-1].metadata.get("ended") == ended
    assert told in capsys.readouterr().out
    response = await a_run(AssistantAgent("ada", ReplayChatCompletionClient([result])), message="A line")
    texts = [event.text async for event in response.events]
    assert any(told.strip("()") in text for text in texts)
