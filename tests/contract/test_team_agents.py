"""Agents beside the assistant as members of a team on the bus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from callboard.agents import (
    AgentTool,
    ApprovalRequest,
    ApprovalResponse,
    AssistantAgent,
    CodeExecutorAgent,
    MessageFilterAgent,
    MessageFilterConfig,
    PerSourceFilter,
    SocietyOfMindAgent,
    UserProxyAgent,
)
from callboard.code import CodeBlock, CodeExecutor, CodeResult
from callboard.core.cancellation import CancellationToken
from callboard.memory.llm_messages import FunctionCall, LLMMessage
from callboard.models import ReplayChatCompletionClient
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import RoundRobinGroupChat
from tests.helpers.chat import Echo, texts
from tests.helpers.runtimes import Runtimes

CODE = "```python\n1\n```"


class Counting(CodeExecutor):
    """Says how often it has run something."""

    def __init__(self) -> None:
        self.runs = 0

    async def execute_code_blocks(
        self, code_blocks: Sequence[CodeBlock], cancellation_token: CancellationToken
    ) -> CodeResult:
        self.runs += 1
        return CodeResult(0, f"run {self.runs}")

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def restart(self) -> None:
        raise AssertionError("a conversation among many restarted the executor of all")


def approve(_: ApprovalRequest) -> ApprovalResponse:
    return ApprovalResponse(approved=True, reason="")


def heard(messages: Sequence[LLMMessage]) -> str:
    """An answer that says what the model read, without what every prompt begins with."""
    return "|".join(str(message.content) for message in messages[1:])


def coder(executor: CodeExecutor) -> CodeExecutorAgent:
    model = ReplayChatCompletionClient(default=heard)
    return CodeExecutorAgent("coder", executor, model_client=model, approval_func=approve)


def a_team(runtime: RedisAgentRuntime, *members: Any) -> RoundRobinGroupChat:
    return RoundRobinGroupChat(members, name="team", max_turns=len(members), runtime=runtime)


async def started(runtimes: Runtimes) -> RedisAgentRuntime:
    made = runtimes.new()
    made.start()
    return made


async def test_a_context_is_a_log_and_goes_on_in_another_process(runtimes: Runtimes) -> None:
    first = await started(runtimes)
    team = a_team(first, coder(Counting()))
    await team.save_state()  # registers it
    assert texts(await team.on(first, "c").run(task="one")) == ["one", "one"]
    await first.stop()

    second = await started(runtimes)
    team = a_team(second, coder(Counting()))
    await team.save_state()

    assert texts(await team.on(second, "c").run(task="two")) == ["two", "one|one|two"]
    assert texts(await team.on(second, "other").run(task="three")) == ["three", "three"]


async def test_what_a_society_remembers_goes_on_in_another_process(runtimes: Runtimes) -> None:
    def society() -> SocietyOfMindAgent:
        inner = RoundRobinGroupChat([Echo("x")], max_turns=1, name="inner")
        model = ReplayChatCompletionClient(default=lambda messages: f"<{messages[1].content}>")
        return SocietyOfMindAgent("society", inner, model)

    first = await started(runtimes)
    team = a_team(first, society())
    await team.save_state()
    assert texts(await team.on(first, "c").run(task="one"))[-1] == "<x1:one>"
    await first.stop()

    second = await started(runtimes)
    team = a_team(second, society())
    await team.save_state()
    assert texts(await team.on(second, "c").run(task="two"))[-1] == "<x1:relevant previous messages,two>"


async def test_a_filter_around_an_agent_with_a_context(runtimes: Runtimes) -> None:
    runtime = await started(runtimes)
    only_user = MessageFilterConfig(per_source=[PerSourceFilter(source="user")])
    team = a_team(runtime, Echo("a"), MessageFilterAgent("coder_ear", coder(Counting()), only_user))

    assert texts(await team.run(task="one")) == ["one", "a1:one", "one"]
    assert texts(await team.run(task="two"))[-1] == "one|one|two"


async def test_a_person_and_a_terminal(runtimes: Runtimes) -> None:
    runtime = await started(runtimes)
    executor = Counting()
    human = UserProxyAgent("human", input_func=lambda _: CODE)
    terminal = CodeExecutorAgent("terminal", executor, approval_func=approve)
    team = a_team(runtime, human, terminal)

    assert texts(await team.run(task="go"))[-1] == "run 1"
    await team.reset()
    assert texts(await team.run(task="go"))[-1] == "run 2"


async def test_an_agent_as_a_tool_has_a_conversation_for_each_call(runtimes: Runtimes) -> None:
    runtime = await started(runtimes)
    call = [FunctionCall(id="1", name="expert", arguments='{"task": "why"}')]
    model = ReplayChatCompletionClient([call, call])
    boss = AssistantAgent("boss", model, tools=[AgentTool(Echo("expert"))])
    team = a_team(runtime, boss)

    assert texts(await team.run(task="go"))[-1] == "expert: expert1:why"
    assert texts(await team.run(task="go"))[-1] == "expert: expert1:why"
