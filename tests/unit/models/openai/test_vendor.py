"""What a maker puts beside an answer goes back to it in the next request, and to no other.

Each server here insists on its part, as Gemini 3 and DeepSeek V4 do: without it the second request of a tool loop is a 400.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from callboard.agents import AssistantAgent
from callboard.groupchat import ConversableAgent
from callboard.memory.llm_messages import LLMMessage
from callboard.models import AssistantMessage, UserMessage
from callboard.models.types import CreateResult, FunctionExecutionResult, FunctionExecutionResultMessage
from callboard.runs import a_run
from tests.helpers.openai_server import Answer, Asked, Call, OpenAIServer

from .conftest import MakeClient

SIGNED: Mapping[str, Any] = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
DETAILS = [{"type": "reasoning.text", "text": "I have to "}, {"type": "reasoning.encrypted", "data": "eHl6"}]
MAKERS = {
    "gemini": Answer(calls=[Call("note", '{"text": "a"}', beside=SIGNED)]),
    "gemini, two": Answer(
        "I note it.",
        calls=[Call("note", '{"text": "a"}', beside=SIGNED), Call("note", '{"text": "b"}', id="call_2")],
    ),
    "deepseek": Answer("I note it.", calls=[Call("note", '{"text": "a"}')], reasoning="I have to note it."),
    "openrouter": Answer(
        calls=[Call("note", '{"text": "a"}')],
        reasoning="I have to",
        reasoning_field="reasoning",
        beside={"reasoning_details": DETAILS},
    ),
}


def note(text: str) -> str:
    """Notes a text."""
    return f"noted {text}"


def insisting(answer: Answer) -> Any:
    """A server that asks for calls, and refuses a request which comes back without all that stood beside them."""
    first = answer._whole("m")["choices"][0]["message"]
    wanted = {name: value for name, value in first.items() if name not in ("role", "reasoning")}

    async def behave(asked: Asked, server: OpenAIServer) -> Response:
        said = [message for message in asked.body["messages"] if message["role"] == "assistant"]
        if not said:
            return await answer(asked, server)
        got = {name: value for name, value in said[0].items() if name not in ("role", "name")}
        if got != wanted:
            return JSONResponse({"error": {"message": f"missing: {json.dumps(wanted)}"}}, status_code=400)
        return await Answer("Done.")(asked, server)

    return behave


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_loop_of_an_assistant(
    server: OpenAIServer, make: MakeClient, maker: str, stream: bool
) -> None:
    server.default = insisting(MAKERS[maker])
    assistant = AssistantAgent(
        "ada", make(), tools=[note], reflect_on_tool_use=True, model_client_stream=stream
    )
    result = await assistant.run(task="Note it")
    assert result.messages[-1].to_model_text() == "Done."  # type: ignore[union-attr]
    state = json.loads(json.dumps(await assistant.save_state()))
    again = AssistantAgent("ada", make(), tools=[note], model_client_stream=stream)
    await again.load_state(state)
    assert (await again.run(task="And now?")).messages[-1].to_text() == "Done."


@pytest.mark.parametrize("maker", MAKERS)
async def test_a_tool_loop_of_a_conversable_agent(server: OpenAIServer, make: MakeClient, maker: str) -> None:
    server.default = insisting(MAKERS[maker])
    ada = ConversableAgent("ada", llm_config=make(), functions=[note], human_input_mode="NEVER")
    response = await a_run(ada, message="Note it", max_turns=3)
    shown = [event.model_dump_json() async for event in response.events]
    assert (await response.result()).messages[-1].to_text().startswith("Done.")
    assert not [one for one in shown if "vendor" in one or "c2ln" in one or "eHl6" in one]


def loop_after(answer: CreateResult) -> list[LLMMessage]:
    """The second request of a tool loop."""
    assert isinstance(answer.content, list)
    results = [
        FunctionExecutionResult(content="noted", name=call.name, call_id=call.id) for call in answer.content
    ]
    asked = AssistantMessage(
        content=answer.content, source="ada", thought=answer.thought, vendor=answer.vendor
    )
    return [
        UserMessage(content="Note it", source="user"),
        asked,
        FunctionExecutionResultMessage(content=results),
    ]


@pytest.mark.parametrize("maker", MAKERS)
async def test_another_model_gets_nothing_of_it(server: OpenAIServer, make: MakeClient, maker: str) -> None:
    server.script(MAKERS[maker], Answer("Done."), Answer("Done."))
    answer = await make().create([UserMessage(content="Note it", source="user")], tools=[])
    assert answer.vendor is not None
    assert CreateResult.model_validate_json(answer.model_dump_json()) == answer
    await make(model="another").create(loop_after(answer))
    said = server.requests[-1].body["messages"][1]
    assert said.keys() <= {"role", "name", "content", "tool_calls"}
    assert all(call.keys() == {"id", "type", "function"} for call in said["tool_calls"])


async def test_without_anything_beside_it_nothing_is_kept(server: OpenAIServer, make: MakeClient) -> None:
    server.script(Answer(calls=[Call("note", '{"text": "a"}')]))
    answer = await make().create([UserMessage(content="Note it", source="user")])
    assert answer.vendor is None
    assert "vendor" not in answer.model_dump_json()
    assert "vendor" not in AssistantMessage(content="a", source="b").model_dump_json()


async def test_reasoning_of_an_answer_without_calls_does_not_go_back(
    server: OpenAIServer, make: MakeClient
) -> None:
    server.script(Answer("It is 4.", reasoning="2 and 2"))
    answer = await make().create([UserMessage(content="2 + 2", source="user")])
    assert (answer.thought, answer.vendor) == ("2 and 2", None)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "It is "}, {"type": "text", "text": "4."}], "It is 4."),
        ([{"type": "thinking", "thinking": []}, {"type": "text", "text": "4."}], "4."),
        ([], ""),
        ([{"text": 3}], ""),
    ],
)
async def test_content_may_come_in_parts(
    server: OpenAIServer, make: MakeClient, content: list[Any], text: str
) -> None:
    server.script(Answer(beside={"content": content}))
    assert (await make().create([UserMessage(content="2 + 2", source="user")])).content == text
