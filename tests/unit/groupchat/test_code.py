"""Code that AG2's agents write, run by a CodeExecutorAgent beside them: in group chats, runs, patterns and teams."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from callboard import App
from callboard.agents import ApprovalResponse, CodeExecutorAgent
from callboard.code import LocalCommandLineCodeExecutor
from callboard.groupchat import ConversableAgent, GroupChat, GroupChatManager
from callboard.models import ReplayChatCompletionClient
from callboard.runs import a_run, run_team
from callboard.teams import RoundRobinGroupChat

pytestmark = pytest.mark.filterwarnings("ignore:LocalCommandLineCodeExecutor runs code:UserWarning")

CODE = "Here it is:\n```python\nprint(6 * 7)\n```"


def coder() -> ConversableAgent:
    model = ReplayChatCompletionClient([CODE, "TERMINATE"])
    return ConversableAgent("coder", llm_config=model, human_input_mode="NEVER")


def runner(executor: LocalCommandLineCodeExecutor) -> CodeExecutorAgent:
    return CodeExecutorAgent(
        "runner", executor, approval_func=lambda request: ApprovalResponse(approved=True, reason="")
    )


async def in_a_group_chat(*agents: Any) -> list[str]:
    user = ConversableAgent("user", human_input_mode="NEVER")
    chat = GroupChat([user, *agents], max_round=3, speaker_selection_method="round_robin")
    result = await user.a_initiate_chat(GroupChatManager(chat), message="Six times seven?", silent=True)
    return [str(message["content"]) for message in result.chat_history]


async def in_a_run(*agents: Any) -> list[str]:
    response = await a_run(*agents, message="Six times seven?", max_turns=2)
    return [str(message["content"]) for message in await response.messages]


async def in_a_run_on_the_bus(*agents: Any) -> list[str]:
    team = run_team(*agents, name="code", max_turns=2)
    app = App("coding")
    app.team(team)
    async with app.running("memory://ag2-code") as runtime:
        response = await a_run(team, message="Six times seven?", runtime=runtime)
        return [str(message["content"]) for message in await response.messages]


async def in_a_team(*agents: Any) -> list[str]:
    result = await RoundRobinGroupChat([*agents], max_turns=2).run(task="Six times seven?")
    return [message.to_text() for message in result.messages]


WAYS: list[Callable[..., Awaitable[list[str]]]] = [in_a_group_chat, in_a_run, in_a_run_on_the_bus, in_a_team]


@pytest.mark.parametrize("way", WAYS)
async def test_code_that_a_conversable_agent_wrote_is_run(way: Callable[..., Awaitable[list[str]]]) -> None:
    async with LocalCommandLineCodeExecutor(timeout=20) as executor:
        said = await way(coder(), runner(executor))
    assert CODE in said
    assert "42\n" in said[said.index(CODE) + 1]
