"""Two agents that talk for a while, for tests in which who began their run dies.

``python -m tests.helpers.running_team URL NAMESPACE RUN`` begins a run, and prints its events.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

from callboard import App, RedisAgentRuntime
from callboard.groupchat import ConversableAgent
from callboard.memory.llm_messages import AssistantMessage, LLMMessage
from callboard.models import CreateResult, ReplayChatCompletionClient
from callboard.runs import a_run, run_team

TURNS = 4
PACE = 0.02  # seconds for an answer
TASK = "Count, please."


class Slow(ReplayChatCompletionClient):
    """Takes its time."""

    async def create(self, messages: Sequence[LLMMessage], **options: Any) -> CreateResult:
        await asyncio.sleep(PACE)
        return await super().create(messages, **options)


def count(messages: Sequence[LLMMessage]) -> str:
    return f"{messages[-1].content}|{sum(isinstance(message, AssistantMessage) for message in messages) + 1}"


def counter(name: str) -> ConversableAgent:
    return ConversableAgent(name, llm_config=Slow([], default=count), human_input_mode="NEVER")


team = run_team(counter("ann"), counter("bob"), name="counters", max_turns=TURNS)
app = App("running")
app.team(team)


async def main(url: str, namespace: str, run_id: str) -> None:
    runtime = RedisAgentRuntime.from_app(app, url, namespace=namespace, types=[])
    response = await a_run(team, message=TASK, runtime=runtime, run_id=run_id)
    async for event in response.events:
        print(event.number, event.text, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
