"""The last word of every request is not the model's own: llama.cpp and Claude refuse such a request with 400."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from starlette.responses import Response

from callboard.agents import AssistantAgent, SocietyOfMindAgent
from callboard.conditions import MaxMessageTermination
from callboard.dispatch import DynamicDispatcherAgent
from callboard.groupchat import ConversableAgent, GroupChat, GroupChatManager
from callboard.memory.llm_messages import AssistantMessage, UserMessage
from callboard.models.errors import BadRequestError
from callboard.models.info import ModelInfo
from callboard.models.openai import OpenAIChatCompletionClient
from callboard.runs import a_run
from callboard.teams import (
    BaseGroupChat,
    ConcurrentGroupChat,
    DiGraphBuilder,
    GraphFlow,
    MagenticOneGroupChat,
    RoundRobinGroupChat,
    SelectorGroupChat,
    Swarm,
)
from tests.helpers.ledgers import ledger
from tests.helpers.openai_server import Answer, Asked, OpenAIServer, Raw

TURNS = 4
MODES = ("native", "lenient", "schema")


async def strict(asked: Asked, server: OpenAIServer) -> Response:
    """Answers, unless the last word is the model's own."""
    said = [message for message in asked.body["messages"] if message["role"] != "system"]
    if said and said[-1]["role"] == "assistant":
        error = {"message": "Cannot have 2 or more assistant messages at the end of the list."}
        return await Raw(json.dumps({"error": error}), 400)(asked, server)
    last = json.dumps(asked.body["messages"][-1])
    text = ledger("ann") if "is_in_loop" in last else "ann"
    form = asked.body.get("response_format") or {}
    is_reply = form.get("json_schema", {}).get("name") == "reply"
    return await Answer(json.dumps({"answer": text}) if is_reply else text)(asked, server)


@pytest.fixture(scope="module")
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(strict) as running:
        yield running


Make = Callable[..., OpenAIChatCompletionClient]


@pytest.fixture(params=MODES)
async def make(server: OpenAIServer, request: pytest.FixtureRequest) -> AsyncIterator[Make]:
    server.requests.clear()
    info = ModelInfo(
        vision=False, function_calling=True, json_output=True, family="unknown", structured_output=True
    )
    made: list[OpenAIChatCompletionClient] = []

    def client() -> OpenAIChatCompletionClient:
        options: Any = {"base_url": server.url, "api_key": "sk-test", "model_info": info, "max_retries": 0}
        made.append(OpenAIChatCompletionClient("m", tool_mode=request.param, **options))
        return made[-1]

    yield client
    for one in made:
        await one.close()


def look_up(city: str) -> str:
    """Looks up a city."""
    return city


def assistant(make: Make, name: str, **options: Any) -> AssistantAgent:
    return AssistantAgent(name, make(), tools=[look_up], **options)


def graph(make: Make, is_streamed: bool) -> GraphFlow:
    ann, bob = (assistant(make, name, model_client_stream=is_streamed) for name in ("ann", "bob"))
    builder = DiGraphBuilder().add_node(ann).add_node(bob)
    builder.add_edge(ann, ann, condition=lambda message: len(message.to_model_text()) > 0)
    builder.add_edge(ann, bob, condition="never")
    builder.set_entry_point(ann)
    return GraphFlow([ann, bob], builder.build(), max_turns=TURNS)


def members(make: Make, is_streamed: bool, *names: str, **options: Any) -> list[Any]:
    return [assistant(make, name, model_client_stream=is_streamed, **options) for name in names]


def inner(make: Make, is_streamed: bool) -> SocietyOfMindAgent:
    return SocietyOfMindAgent("inner", alone(make, is_streamed), make())


def alone(make: Make, is_streamed: bool) -> BaseGroupChat:
    return RoundRobinGroupChat(members(make, is_streamed, "ann"), max_turns=TURNS)


TEAMS: dict[str, Callable[[Make, bool], BaseGroupChat]] = {
    "round robin of one": alone,
    "round robin": lambda make, on: RoundRobinGroupChat(members(make, on, "ann", "bob"), max_turns=TURNS),
    "swarm": lambda make, on: Swarm(
        members(make, on, "ann", handoffs=["bob"]) + members(make, on, "bob"), max_turns=TURNS
    ),
    "selector": lambda make, on: SelectorGroupChat(
        members(make, on, "ann", "bob"), make(), allow_repeated_speaker=True, max_turns=TURNS
    ),
    "concurrent": lambda make, on: ConcurrentGroupChat(members(make, on, "ann", "bob"), rounds=2),
    "graph": graph,
    "magentic": lambda make, on: MagenticOneGroupChat(
        members(make, on, "ann", "bob"), make(), termination_condition=MaxMessageTermination(8)
    ),
    "dispatcher": lambda make, on: RoundRobinGroupChat(
        [DynamicDispatcherAgent("ann", make(), model_client_stream=on)], max_turns=TURNS
    ),
    "society": lambda make, on: RoundRobinGroupChat([inner(make, on)], max_turns=2),
}


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("team", TEAMS)
async def test_teams(make: Make, server: OpenAIServer, team: str, is_streamed: bool) -> None:
    result = await TEAMS[team](make, is_streamed).run(task="Begin.")
    assert len(result.messages) > 1
    assert len(server.requests) >= 2


async def test_an_agent_that_runs_alone(make: Make, server: OpenAIServer) -> None:
    for agent in (assistant(make, "ann"), ConversableAgent("ann", llm_config=make())):
        server.requests.clear()
        response = await a_run(agent, message="Begin.", max_turns=3)
        await response.result()
        assert len(server.requests) == 3


async def test_a_group_chat_whose_speaker_goes_on(make: Make, server: OpenAIServer) -> None:
    agents = [ConversableAgent(name, llm_config=make()) for name in ("ann", "bob")]
    chat = GroupChat(agents, max_round=TURNS, speaker_selection_method=lambda last, chat: agents[0])
    manager = GroupChatManager(chat)
    await agents[1].a_initiate_chat(manager, message="Begin.")
    assert len(server.requests) >= 2


async def test_what_is_continued_on_purpose_is(make: Make, server: OpenAIServer) -> None:
    messages: Any = [
        UserMessage(content="Go", source="ada"),
        AssistantMessage(content="ann sa", source="ann"),
    ]
    await make().create(messages)
    assert server.last.body["messages"][-1] == {"role": "user", "content": "Go on."}
    with pytest.raises(BadRequestError, match="assistant messages at the end"):
        await make().create(messages, extra_create_args={"extra_body": {"continue_final_message": True}})
