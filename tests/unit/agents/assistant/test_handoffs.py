"""Handing over."""

from __future__ import annotations

import pytest

from callboard.agents import AssistantAgent, Handoff, HandoffInput
from callboard.memory.llm_messages import AssistantMessage, LLMMessage, UserMessage
from callboard.messages import HandoffMessage, TextMessage
from callboard.models.replay import Answer
from callboard.tools import FunctionTool

from .talking import assistant, brief, calls, prompts, remembered, said, says

NOT_BOB = "Not done: there can be only one handoff at a time, and the conversation was handed over to bob."
TO_BOB = "Transferred to bob, adopting the role of bob immediately."


def one() -> str:
    """Returns one."""
    return "1"


async def handed_over(agent: AssistantAgent) -> HandoffMessage:
    message = (await agent.run(task="go")).messages[-1]
    assert isinstance(message, HandoffMessage)
    return message


async def test_a_handoff_ends_the_turn() -> None:
    agent, model = assistant(calls("transfer_to_bob"), handoffs=["bob"], max_tool_iterations=5)
    assert await said(agent) == [
        ("calls", "transfer_to_bob"),
        ("results", TO_BOB),
        ("HandoffMessage", TO_BOB),
        ("result", 3),
    ]
    assert len(model.create_calls) == 1


async def test_the_tools_of_handoffs_come_last() -> None:
    agent, model = assistant("hi", tools=[one], handoffs=[Handoff(target="Bob", description="for sums")])
    await agent.run(task="go")
    shown = [(tool["name"], tool.get("description")) for tool in model.create_calls[0]["tools"]]
    assert shown == [("one", "Returns one."), ("transfer_to_bob", "for sums")]


@pytest.mark.parametrize(
    ("answer", "context"),
    [
        (calls("transfer_to_bob"), []),
        (calls("transfer_to_bob", thought="hm"), [("AssistantMessage", "hm")]),
        (
            calls("one", "transfer_to_bob", thought="hm"),
            [("AssistantMessage", ["one"]), ("FunctionExecutionResultMessage", ["one"])],
        ),
    ],
)
async def test_what_goes_along(answer: Answer, context: list[tuple[str, object]]) -> None:
    agent, _ = assistant(answer, tools=[one], handoffs=["bob"])
    message = await handed_over(agent)
    assert message.target == "bob"
    assert brief(message.context) == context
    for along in message.context:
        if isinstance(along, AssistantMessage) and isinstance(along.content, list):
            assert along.thought == "hm"


async def test_of_several_handoffs_the_first_is_taken_and_the_model_is_told() -> None:
    """AutoGen only warns, and tells the model that it was transferred to each of them."""
    agent, model = assistant(
        calls("transfer_to_bob", "one", "transfer_to_eve"), "back", tools=[one], handoffs=["bob", "eve"]
    )
    assert await said(agent) == [
        ("calls", "transfer_to_bob", "one", "transfer_to_eve"),
        ("results", TO_BOB, "1", f"!{NOT_BOB}"),
        ("HandoffMessage", TO_BOB),
        ("result", 3),
    ]
    await agent.run(task=TextMessage(content="and now?", source="user"))
    assert len(prompts(model)[1]) == 5


class Asking(Handoff):
    """Has a tool of its own, as AutoGen's may have."""

    @property
    def handoff_tool(self) -> FunctionTool:
        def hand_over() -> str:
            return "please, bob"

        return FunctionTool(hand_over, name=self.name, description=self.description)


async def test_a_handoff_may_have_a_tool_of_its_own() -> None:
    agent, _ = assistant(calls("transfer_to_bob"), handoffs=[Asking(target="bob")])
    assert (await handed_over(agent)).content == "please, bob"


def only_the_task(given: HandoffInput) -> list[LLMMessage]:
    assert given.target == "bob"
    assert len(given.along) == 2
    return [message for message in given.seen if isinstance(message, UserMessage)]


async def nothing(given: HandoffInput) -> list[LLMMessage]:
    return []


@pytest.mark.parametrize(
    ("input_filter", "context"), [(only_the_task, [("UserMessage", "go")]), (nothing, [])]
)
async def test_an_input_filter_chooses_what_goes_along(input_filter: object, context: list[object]) -> None:
    handoff = Handoff.model_validate({"target": "bob", "input_filter": input_filter})
    agent, _ = assistant(calls("one", "transfer_to_bob"), tools=[one], handoffs=[handoff])
    assert brief((await handed_over(agent)).context) == context


def test_an_input_filter_is_not_dumped() -> None:
    handoff = Handoff(target="bob", input_filter=nothing)
    assert "input_filter" not in handoff.model_dump()
    assert "input_filter" not in Handoff.model_json_schema()["properties"]


async def test_what_it_remembers_of_a_handoff_is_complete() -> None:
    agent, _ = assistant(calls("transfer_to_bob"), handoffs=["bob"])
    await agent.run(task="go")
    assert await remembered(agent) == [
        ("UserMessage", "go"),
        ("AssistantMessage", ["transfer_to_bob"]),
        ("FunctionExecutionResultMessage", ["transfer_to_bob"]),
    ]


async def test_no_handoff_no_end() -> None:
    agent, _ = assistant(says("I stay"), handoffs=["bob"])
    assert (await said(agent))[0] == ("TextMessage", "I stay")
