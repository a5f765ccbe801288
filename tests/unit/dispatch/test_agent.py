"""The agent with a dispatcher: what its model is shown, what it may create, and what is left of a turn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from callboard.agents import (
    AgentError,
    AssistantAgent,
    CallGuardrail,
    Handoff,
    MessageFilterAgent,
    Refused,
    TaskResult,
)
from callboard.agents.message_filter import MessageFilterConfig
from callboard.conditions import TextMentionTermination
from callboard.dispatch import (
    Dispatcher,
    DynamicDispatcher,
    DynamicDispatcherAgent,
    HandoffDeclarationError,
    TargetRefusedError,
    TypedHandoff,
    WorkbenchSearchAgent,
)
from callboard.foundation.component import NotDumpableError
from callboard.memory.llm_messages import FunctionCall, FunctionExecutionResultMessage
from callboard.messages import HandoffChangeEvent, HandoffMessage, ToolCallExecutionEvent
from callboard.models import ModelInfo, ReplayChatCompletionClient
from callboard.models.replay import Answer
from callboard.teams import RoundRobinGroupChat
from callboard.tools import DynamicWorkbench, FunctionTool, StaticWorkbench

BOB = Handoff(target="bob", message="Yours.")


def call(name: str, id: str = "1", /, **arguments: Any) -> FunctionCall:
    return FunctionCall(id=id, name=name, arguments=json.dumps(arguments))


def creates(name: str = "ask", target: str = "bob", id: str = "1", **given: Any) -> FunctionCall:
    text = {"description": "When needed.", "message": "Two prices, please.", **given}
    return call("create_handoff", id, name=name, target=target, **text)


def one() -> str:
    """Returns one."""
    return "1"


class Script:
    """An agent called ada, with a scripted model."""

    def __init__(self, *answers: Answer, dispatcher: Any = None, **options: Any) -> None:
        self.model = ReplayChatCompletionClient(answers)
        self.dispatcher = DynamicDispatcher(["bob", "ada"]) if dispatcher is None else dispatcher
        self.agent = DynamicDispatcherAgent("ada", self.model, dispatcher=self.dispatcher, **options)

    def shown(self) -> list[list[str]]:
        """The tools of each request."""
        return [[tool["name"] for tool in asked["tools"] or ()] for asked in self.model.create_calls]

    async def result(self) -> TaskResult:
        return await self.agent.run(task="go")

    async def told(self) -> list[str]:
        """What the model was told as results of its calls."""
        messages = await self.agent.model_context.get_messages()
        found = [one for one in messages if isinstance(one, FunctionExecutionResultMessage)]
        return [("!" if one.is_error else "") + one.content for message in found for one in message.content]


def changes(messages: Sequence[Any]) -> list[tuple[str, str]]:
    return [(one.change, one.name) for one in messages if isinstance(one, HandoffChangeEvent)]


async def test_a_handoff_that_is_created_is_used_in_the_same_turn() -> None:
    script = Script([creates()], [call("ask")])
    result = await script.result()
    assert script.shown() == [["create_handoff"], ["create_handoff", "ask"]]
    last = result.messages[-1]
    assert isinstance(last, HandoffMessage)
    assert (last.target, last.content, last.source) == ("bob", "Two prices, please.", "ada")
    assert changes(result.messages) == [("created", "ask"), ("used", "ask")]
    assert script.dispatcher.handoffs == []


async def test_readers_and_the_response_have_the_same_events() -> None:
    script = Script([creates()], [call("ask")])
    stream = script.agent.run_stream(task="go")
    seen = [item async for item in stream]
    result = seen.pop()
    assert isinstance(result, TaskResult)
    assert [type(item) for item in seen] == [type(item) for item in result.messages]
    assert changes(seen) == [("created", "ask"), ("used", "ask")]


async def test_a_handoff_that_is_called_before_it_is_there_is_not_found() -> None:
    script = Script([creates(), call("ask", "2")], "Well.")
    result = await script.result()
    assert result.messages[-1].to_text() == "Well."
    assert (await script.told())[1].startswith("!Tool ask not found")


async def test_handoffs_are_those_of_the_time_of_each_request() -> None:
    dispatcher = DynamicDispatcher(["bob"], [BOB])

    async def delete() -> str:
        """Deletes it."""
        dispatcher.delete_handoff(BOB.name)
        return "gone"

    script = Script([call("delete")], [call(BOB.name)], "Well.", dispatcher=dispatcher, tools=[delete])
    await script.result()
    assert script.shown() == [
        ["delete", "create_handoff", BOB.name],
        ["delete", "create_handoff"],
        ["delete", "create_handoff"],
    ]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (creates("class"), "its name may have"),
        (creates("ask me"), "its name may have"),
        (creates(description="d" * 1025), "1,025 characters"),
        (creates(target="eve"), "it is not authorized for 'ada'; there are: bob"),
        (creates(target="ada"), "that is who hands over"),
        (creates("one"), "there is a tool 'one' already"),
        (creates("create_handoff"), "there is a tool 'create_handoff' already"),
        (call("create_handoff", name="ask"), "target"),
        (FunctionCall(id="1", name="create_handoff", arguments="{"), "JSON"),
    ],
)
async def test_what_is_refused_the_model_is_told(asked: FunctionCall, why: str) -> None:
    script = Script([asked], "Well.", tools=[one])
    result = await script.result()
    assert result.messages[-1].to_text() == "Well."
    [told] = await script.told()
    assert told.startswith("!")
    assert why in told
    assert script.dispatcher.handoffs == []
    assert changes(result.messages) == []


async def test_two_with_one_name_in_one_answer_are_one() -> None:
    script = Script([creates(), creates(id="2", message="Others.")], "Well.")
    await script.result()
    told = await script.told()
    assert [text.startswith("!") for text in told] == [False, True]
    assert [handoff.message for handoff in script.dispatcher.handoffs] == ["Two prices, please."]


async def test_a_guardrail_may_refuse_that_a_handoff_is_created() -> None:
    guard = CallGuardrail(lambda _: Refused("not today"), tools=["create_handoff"])
    script = Script([creates()], "Well.", guardrails=[guard])
    await script.result()
    assert await script.told() == ["!Refused: not today"]
    assert script.dispatcher.handoffs == []


async def test_nothing_is_left_of_a_turn_that_fails() -> None:
    script = Script(RuntimeError("no"), "Well.", dispatcher=Dispatcher([BOB]))
    with pytest.raises(RuntimeError):
        await script.result()
    assert await script.agent.model_context.get_messages() == []
    await script.result()
    assert script.shown() == [[BOB.name], [BOB.name]]


async def test_agents_share_a_workbench_and_a_dispatcher() -> None:
    workbench = DynamicWorkbench([FunctionTool(one, description="Returns one.")])
    dispatcher = DynamicDispatcher({"ada": ["bob"], "bob": ["ada"]}, [BOB])
    agents = []
    for name in ("ada", "bob"):
        model = ReplayChatCompletionClient([[creates(f"to_{name}", "ada")], "Well."])
        agents.append((DynamicDispatcherAgent(name, model, workbench, dispatcher), model))
    for agent, _ in agents:
        await agent.run(task="go")
    assert [tool.name for tool in workbench.tools] == ["one"]
    shown = [
        [tool["name"] for tool in model.create_calls[-1]["tools"]]  # of the last request
        for _, model in agents
    ]
    assert shown == [["one", "create_handoff", BOB.name], ["one", "create_handoff", "to_bob"]]


async def test_a_tool_that_comes_later_hides_a_handoff_of_its_name() -> None:
    workbench = DynamicWorkbench()
    script = Script("a", "b", dispatcher=DynamicDispatcher(["bob"], [BOB]), workbench=workbench)
    await script.result()
    workbench.add_tool(FunctionTool(one, name=BOB.name, description="Returns one."))
    result = await script.result()
    assert script.shown() == [["create_handoff", BOB.name], [BOB.name, "create_handoff"]]
    assert changes(result.messages) == [("hidden", BOB.name)]


@pytest.mark.parametrize(
    "options",
    [
        {"tools": [FunctionTool(one, name=BOB.name, description="")]},
        {"workbench": StaticWorkbench([FunctionTool(one, name=BOB.name, description="")])},
        {"workbench": [DynamicWorkbench([FunctionTool(one, name=BOB.name, description="")])]},
    ],
)
def test_a_handoff_with_the_name_of_a_tool_is_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(HandoffDeclarationError, match="there is a tool 'transfer_to_bob' already"):
        Script(dispatcher=Dispatcher([BOB]), **options)


def test_a_static_dispatcher_may_use_the_name_of_the_tool_that_creates() -> None:
    own = Handoff(target="bob", name="create_handoff")
    Script(dispatcher=Dispatcher([own]))
    with pytest.raises(HandoffDeclarationError):
        Script(dispatcher=DynamicDispatcher("*", [own]))


def test_its_model_has_to_call_tools() -> None:
    info = ModelInfo(
        vision=False, function_calling=False, json_output=False, family="unknown", structured_output=False
    )
    with pytest.raises(AgentError, match="function calling, which is needed for handoffs"):
        DynamicDispatcherAgent("ada", ReplayChatCompletionClient(model_info=info))


async def test_without_a_dispatcher_nobody_is_authorized() -> None:
    model = ReplayChatCompletionClient([[creates()], "Well."])
    agent = DynamicDispatcherAgent("ada", model)
    await agent.run(task="go")
    messages = await agent.model_context.get_messages()
    results = [one for one in messages if isinstance(one, FunctionExecutionResultMessage)]
    assert "it is not authorized for 'ada'; nobody is" in results[0].content[0].content


async def test_lifetimes_are_counted_by_turns() -> None:
    script = Script([creates()], "a", "b", "c", dispatcher=DynamicDispatcher(["bob"], lifetime=1))
    seen = [changes((await script.result()).messages) for _ in range(3)]
    assert seen == [[("created", "ask")], [], [("expired", "ask")]]


class Order(BaseModel):
    number: int
    reason: str


async def test_a_handoff_may_take_arguments() -> None:
    refund = TypedHandoff(target="bob", name="refund", message="Please refund.", input_type=Order)
    script = Script([call("refund", number=7, reason="late")], dispatcher=Dispatcher([refund]))
    last = (await script.result()).messages[-1]
    assert isinstance(last, HandoffMessage)
    assert last.content == 'Please refund.\n{"number":7,"reason":"late"}'
    [tool] = script.model.create_calls[0]["tools"]
    assert set(tool["parameters"]["properties"]) == {"number", "reason"}


# Teams


def test_targets_are_members_of_its_team() -> None:
    script = Script(dispatcher=DynamicDispatcher(["bob"], [BOB]))
    with pytest.raises(TargetRefusedError, match="nobody in the team has this name"):
        RoundRobinGroupChat([script.agent])


async def test_a_target_that_is_not_in_the_team_is_refused_to_the_model() -> None:
    script = Script([creates(target="eve")], "Well.", dispatcher=DynamicDispatcher("*"))
    filtered = MessageFilterAgent("filtered", script.agent, MessageFilterConfig(per_source=[]))
    await RoundRobinGroupChat([filtered], max_turns=1).run(task="go")
    [told] = await script.told()
    assert "nobody in the team has this name; there are: filtered" in told


# State


async def test_its_state_is_that_of_an_assistant_with_its_handoffs() -> None:
    first, second = Script([creates()], "Well."), Script()
    await first.result()
    state = await first.agent.save_state()
    await second.agent.load_state(json.loads(json.dumps(state)))
    assert second.dispatcher.handoffs == first.dispatcher.handoffs
    assert await second.agent.save_state() == state
    plain = AssistantAgent("plain", ReplayChatCompletionClient())
    await plain.load_state(state)
    await second.agent.load_state(await plain.save_state())


async def test_a_state_that_does_not_fit_changes_nothing() -> None:
    script = Script([creates()], "Well.")
    await script.result()
    before = await script.agent.save_state()
    for broken in ({**before, "llm_context": 1}, {**before, "dispatcher": {"type": "Other"}}):
        with pytest.raises(ValueError, match=r"llm_context|state can't be loaded"):
            await script.agent.load_state(broken)
    assert await script.agent.save_state() == before


@pytest.mark.parametrize("kind", [DynamicDispatcherAgent, WorkbenchSearchAgent])
def test_it_is_written_in_a_program_and_not_in_a_config(kind: type[AssistantAgent]) -> None:
    agent: AssistantAgent = (
        Script().agent
        if kind is DynamicDispatcherAgent
        else WorkbenchSearchAgent("finder", ReplayChatCompletionClient(), DynamicWorkbench())
    )
    with pytest.raises(NotDumpableError, match=kind.__name__):
        agent.dump_component()


async def test_a_reset_forgets_what_was_created() -> None:
    script = Script([creates()], "Well.", dispatcher=DynamicDispatcher(["bob"], [BOB]))
    await script.result()
    await RoundRobinGroupChat([AssistantAgent("bob", script.model), script.agent]).reset()
    assert script.dispatcher.handoffs == [BOB]


async def test_each_conversation_has_handoffs_of_its_own() -> None:
    script = Script([creates()], "Well.")
    other = script.agent.for_conversation()
    await other.run(task="go")
    assert script.dispatcher.handoffs == []
    found = other.dispatcher
    assert isinstance(found, DynamicDispatcher)
    assert [handoff.name for handoff in found.handoffs] == ["ask"]


async def test_a_team_saves_and_loads_what_happened_to_handoffs() -> None:
    def team() -> tuple[Script, RoundRobinGroupChat]:
        script = Script([creates()], "Well. END", dispatcher=DynamicDispatcher(["bob"]))
        bob = AssistantAgent("bob", script.model)
        return script, RoundRobinGroupChat(
            [script.agent, bob], termination_condition=TextMentionTermination("END")
        )

    (_, first), (script, second) = team(), team()
    result = await first.run(task="go")
    assert changes(result.messages) == [("created", "ask")]
    await second.load_state(json.loads(json.dumps(await first.save_state())))
    assert [handoff.name for handoff in script.dispatcher.handoffs] == ["ask"]


async def test_results_are_told_beside_those_of_tools() -> None:
    script = Script([call("one"), creates(id="2")], [call("ask")], tools=[one])
    result = await script.result()
    [first, _] = [item for item in result.messages if isinstance(item, ToolCallExecutionEvent)]
    assert [one.content for one in first.content] == [
        "1",
        "There is a tool ask now, which hands over to bob.",
    ]
