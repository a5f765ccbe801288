"""Steps inside of recorded steps: two calls that do the same inside are two, also where only one of them is made again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from callboard import ClosureContext, MessageContext, TopicId
from callboard.agents import AgentTool, AssistantAgent
from callboard.groupchat import ConversableAgent
from callboard.memory.llm_messages import FunctionCall, FunctionExecutionResultMessage, LLMMessage
from callboard.models import ReplayChatCompletionClient
from callboard.runs import a_run, ask_user, is_async_input_request
from callboard.tools import FunctionTool, run_tools
from callboard.tools.static import StaticWorkbench
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Note, Runtimes, closure

TASKS = ("quick", "careful")


def calls(name: str) -> list[FunctionCall]:
    """The two calls of one answer."""
    return [FunctionCall(id=task, name=name, arguments=f'{{"task": "{task}"}}') for task in TASKS]


class Till:
    """An agent that charges 5 cents, and for a careful task asks a person first; so that handler is run again."""

    def __init__(self) -> None:
        self.charged: list[str] = []

    async def confirm(self) -> str:
        """Ask."""
        return str(await ask_user("Are you sure?"))

    async def charge(self, cents: int) -> str:
        """Charge."""
        self.charged.append(f"receipt {len(self.charged) + 1}")
        return self.charged[-1]

    def answer(self, messages: Sequence[LLMMessage]) -> str | list[FunctionCall]:
        task = next(str(one.content) for one in messages if one.type == "UserMessage")
        results = [one.content[0] for one in messages if isinstance(one, FunctionExecutionResultMessage)]
        if task == "careful" and not results:
            return [FunctionCall(id="1", name="confirm", arguments="{}")]
        if not results or results[-1].name == "confirm":
            return [FunctionCall(id="2", name="charge", arguments='{"cents": 5}')]
        return f"{task}: {results[-1].content}"

    def agent(self) -> AssistantAgent:
        model = ReplayChatCompletionClient([], default=self.answer)
        return AssistantAgent("till", model, tools=[self.confirm, self.charge], max_tool_iterations=5)

    async def pay(self, task: str) -> str:
        """Have it done."""
        return str((await self.agent().run(task=task)).messages[-1].to_text())


def with_agent_tool(till: Till) -> Any:
    """An assistant that has the agent as a tool."""
    model = ReplayChatCompletionClient([calls("till")])
    return AssistantAgent("boss", model, tools=[AgentTool(till.agent(), return_value_as_last_message=True)])


def with_function(till: Till) -> Any:
    """An assistant, a function of which runs the agent."""
    return AssistantAgent("boss", ReplayChatCompletionClient([calls("pay")]), tools=[till.pay])


def with_executed_function(till: Till) -> Any:
    """An agent of AG2's kind, a function of which runs the agent."""
    model = ReplayChatCompletionClient([calls("pay")], default="Done.")
    agent = ConversableAgent("boss", llm_config=model, human_input_mode="NEVER")
    agent.register_tool(till.pay)
    return agent


@pytest.mark.parametrize("make", [with_agent_tool, with_function, with_executed_function])
async def test_what_two_calls_do_inside_is_done_twice(
    runtimes: Runtimes, make: Callable[[Till], Any]
) -> None:
    till = Till()
    runtime = runtimes.new()
    runtime.start()
    response = await a_run(make(till), message="Go.", runtime=runtime, max_turns=1)

    async def answer() -> None:
        async for event in response.events:
            if is_async_input_request(event):
                # Then the first call is recorded as a whole, and is not made again.
                await eventually(lambda: till.charged)
                await asyncio.sleep(0.05)
                await event.a_respond("yes")

    await asyncio.wait_for(answer(), 30)
    assert till.charged == ["receipt 1", "receipt 2"]


async def test_steps_of_two_once_are_apart_in_another_attempt(runtimes: Runtimes) -> None:
    till = Till()
    got: list[str] = []
    bench = StaticWorkbench([FunctionTool(till.charge, description="Charges.")])
    call = FunctionCall(id="1", name="charge", arguments='{"cents": 5}')

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        async def pay() -> str:
            (result,) = await run_tools([call], bench)
            return result.content

        async def pay_later() -> str:
            if ctx.attempt == 1:
                raise RuntimeError("again")
            return await pay()

        first = await ctx.once("first", pay)
        got.extend([first, await ctx.once("second", pay_later)])

    runtime = await runtimes.started()
    await closure(runtime, "worker", work, "work")
    await runtime.publish_message(Note(), TopicId("work", "a"))
    await runtime.stop_when_idle()
    assert got == till.charged == ["receipt 1", "receipt 2"]
