"""Images that tools return are shown to the model: it read "[Image: image/png, 18 bytes]"."""

from __future__ import annotations

import json

import pytest

from callboard.agents import AssistantAgent
from callboard.groupchat import ConversableAgent
from callboard.memory.llm_messages import Image
from callboard.messages import ToolCallExecutionEvent, ToolCallSummaryMessage
from callboard.models import ModelInfo
from callboard.runs import a_run
from tests.helpers.openai_server import Answer, Call, OpenAIServer

from .conftest import MakeClient

PNG = Image.from_bytes(b"\x89PNG\r\n\x1a\n0123456789")


def draw() -> list[str | Image]:
    """Draws the sea."""
    return ["The sea", PNG]


def plain() -> str:
    """Returns a text."""
    return "a text"


SHOWN = [
    {"type": "text", "text": "The image that draw returned:"},
    {"type": "image_url", "image_url": {"url": PNG.uri, "detail": "auto"}},
]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_assistants_model_sees_them(server: OpenAIServer, make: MakeClient, stream: bool) -> None:
    both = Answer(calls=[Call("draw"), Call("plain", id="call_2")])
    server.script(both, Answer("It is blue."), Answer("Still blue."))
    ada = AssistantAgent(
        "ada", make(), tools=[draw, plain], reflect_on_tool_use=True, model_client_stream=stream
    )
    result = await ada.run(task="Draw")
    *_, first, second, shown = server.last.body["messages"]
    assert (first["role"], second["role"]) == ("tool", "tool")
    assert first["content"] == "The sea\n[Image: image/png, 18 bytes]"
    assert shown == {"role": "user", "content": SHOWN}
    (event,) = [one for one in result.messages if isinstance(one, ToolCallExecutionEvent)]
    assert [len(one.images) for one in event.content] == [1, 0]
    assert ToolCallExecutionEvent.model_validate_json(event.model_dump_json()) == event
    again = AssistantAgent("ada", make(), tools=[draw])
    await again.load_state(json.loads(json.dumps(await ada.save_state())))
    await again.run(task="And now?")
    assert {"role": "user", "content": SHOWN} in server.last.body["messages"]


async def test_a_model_that_sees_nothing_reads_what_it_is(
    server: OpenAIServer, make: MakeClient, info: ModelInfo
) -> None:
    server.script(Answer(calls=[Call("draw")]), Answer("It is blue."))
    blind = make(model_info={**info, "vision": False})
    await AssistantAgent("ada", blind, tools=[draw], reflect_on_tool_use=True).run(task="Draw")
    assert server.last.body["messages"][-1]["content"] == "The sea\n[Image: image/png, 18 bytes]"


async def test_where_tools_are_told_in_words_as_well(server: OpenAIServer, make: MakeClient) -> None:
    server.script(Answer('{"name": "draw", "arguments": {}}'), Answer("It is blue."))
    ada = AssistantAgent("ada", make(tool_mode="schema"), tools=[draw], reflect_on_tool_use=True)
    await ada.run(task="Draw")
    told = [one["content"] for one in server.requests[1].body["messages"] if one["role"] == "user"]
    assert told[-1][-2:] == SHOWN


async def test_a_summary_for_others_has_none(server: OpenAIServer, make: MakeClient) -> None:
    server.script(Answer(calls=[Call("draw")]))
    result = await AssistantAgent("ada", make(), tools=[draw]).run(task="Draw")
    summary = result.messages[-1]
    assert isinstance(summary, ToolCallSummaryMessage)
    assert not summary.results[0].images
    assert str(PNG.data) not in summary.model_dump_json()


async def test_agents_of_ag2_read_what_it_is(server: OpenAIServer, make: MakeClient) -> None:
    server.script(Answer(calls=[Call("draw")]))
    server.default = Answer("It is blue.")
    ada = ConversableAgent("ada", llm_config=make(), functions=[draw], human_input_mode="NEVER")
    response = await a_run(ada, message="Draw", max_turns=3)
    assert "It is blue." in (await response.result()).messages[-1].to_text()
    read = json.dumps(server.requests[1].body)

    assert "image/png, 18 bytes" in read
    assert str(PNG.data) not in read
