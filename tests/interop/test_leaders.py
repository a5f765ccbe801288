"""A leader that is gone in the middle of a run, errors of tools, and types that are registered for two classes."""

# pyright: reportMissingImports=false
from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import AgentId, FunctionCall, MessageContext, RoutedAgent, message_handler
from autogen_core.models import FunctionExecutionResult
from autogen_core.tool_agent import (
    InvalidToolArgumentsException,
    ToolAgent,
    ToolException,
    ToolExecutionException,
    ToolNotFoundException,
)
from autogen_core.tools import FunctionTool

from callboard.interop.autogen import SharedTeam

from .teams import NAMES, Listener, transcript

TURNS = 6


class Held(Listener):
    """Waits in its first turn until it is let go."""

    begun = asyncio.Event()
    let_go = asyncio.Event()
    is_first = True

    async def on_messages(self, messages: Sequence[Any], cancellation_token: Any) -> Any:
        if self.name == "bob" and Held.is_first:
            Held.is_first = False
            Held.begun.set()
            await Held.let_go.wait()
        return await super().on_messages(messages, cancellation_token)


def shared(runtime: Any, kind: type[Listener]) -> tuple[Any, SharedTeam]:
    team = RoundRobinGroupChat([kind(name) for name in NAMES], max_turns=TURNS, runtime=runtime)
    return team, SharedTeam(team, "review")


async def test_the_next_run_hears_no_answer_of_a_run_whose_leader_is_gone(
    make_runtime: Callable[..., Any],
) -> None:
    _, hosted = shared(make_runtime(), Held)
    await hosted.host(*NAMES)
    first, lost = shared(make_runtime(), Listener)
    lost.lead()
    running = asyncio.create_task(first.run(task="Begin."))
    async with asyncio.timeout(60):
        await Held.begun.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await first._runtime.close()

        second, leader = shared(make_runtime(), Listener)
        leader.lead()
        running = asyncio.create_task(second.run(task="Again."))
        Held.let_go.set()
        result = await running
    # The manager goes on from what it has saved, with the one behind bob, whose turn was lost with the run.
    speakers = [source for _, source, *_ in transcript(result)[:-1]]
    assert speakers == ["user", "cy", "ann", "bob", "cy", "ann"]


def divide(a: int, b: int) -> float:
    """Divides."""
    return a / b


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (FunctionCall(id="1", name="multiply", arguments="{}"), ToolNotFoundException),
        (FunctionCall(id="2", name="divide", arguments="{"), InvalidToolArgumentsException),
        (FunctionCall(id="3", name="divide", arguments='{"a": 1, "b": 0}'), ToolExecutionException),
    ],
)
async def test_errors_of_tools_come_back_as_themselves(
    make_runtime: Callable[..., Any], call: FunctionCall, error: type[ToolException]
) -> None:
    worker, asker = make_runtime(), make_runtime()
    tools = [FunctionTool(divide, description="Divides.")]
    await ToolAgent.register(worker, "tools", lambda: ToolAgent("Runs tools.", tools))
    worker.start()
    for runtime in (worker, asker):
        with pytest.raises(error) as caught:
            await runtime.send_message(call, AgentId("tools", "default"))
        assert (caught.value.call_id, caught.value.name) == (call.id, call.name)
        assert caught.value.content
    answer = await worker.send_message(
        FunctionCall(id="4", name="divide", arguments='{"a": 1, "b": 2}'), AgentId("tools", "default")
    )
    assert answer == FunctionExecutionResult(call_id="4", content="0.5", is_error=False, name="divide")


class One(RoutedAgent):
    @message_handler
    async def on_text(self, message: str, ctx: MessageContext) -> str:
        return "one"


class Two(One):
    pass


async def test_instances_of_two_classes_are_not_of_one_type(runtime: Any) -> None:
    await runtime.register_agent_instance(One("one"), AgentId("kind", "a"))
    await runtime.register_agent_instance(One("one"), AgentId("kind", "b"))
    with pytest.raises(ValueError, match="have to be of one class, and there is a One"):
        await runtime.register_agent_instance(Two("two"), AgentId("kind", "c"))
