"""Chats of agents in one process, whose models cost nothing: what the 100th turn takes, the 1,000th and the 2,000th.

Run as `python -m scripts.benchmarks.chats`; it prints milliseconds of processor time by turn, for both kinds of chats.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Any, Final

from callboard.agents import AssistantAgent
from callboard.groupchat import ConversableAgent
from callboard.models import CreateResult, LLMMessage, ReplayChatCompletionClient, RequestUsage
from callboard.teams import RoundRobinGroupChat

TURNS: Final = (100, 1000, 2000)
WINDOW: Final = 50  # turns before and after each of these
ANSWER: Final = CreateResult(finish_reason="stop", content="x" * 200, usage=RequestUsage(1, 1), cached=False)


class Clock(ReplayChatCompletionClient):
    """Answers at once, and notes when."""

    def __init__(self, times: list[float]) -> None:
        super().__init__([])
        self.times = times

    async def create(self, messages: Sequence[LLMMessage], **options: Any) -> CreateResult:
        self.times.append(time.process_time())
        return ANSWER


def per_turn(times: Sequence[float]) -> dict[str, float]:
    """Milliseconds of a turn, around each of TURNS."""
    return {
        f"{turn:,}": 1000 * (times[turn + WINDOW] - times[turn - WINDOW]) / (2 * WINDOW) for turn in TURNS
    }


async def conversable() -> dict[str, float]:
    """A chat of two ConversableAgents."""
    times: list[float] = []
    ann, bob = [
        ConversableAgent(
            name, llm_config=Clock(times), human_input_mode="NEVER", max_consecutive_auto_reply=1_000_000
        )
        for name in ("ann", "bob")
    ]
    await ann.a_initiate_chat(bob, message="go", max_turns=TURNS[-1] // 2 + WINDOW, silent=True)
    return per_turn(times)


async def assistants() -> dict[str, float]:
    """A team of two AssistantAgents in turn."""
    times: list[float] = []
    members = [AssistantAgent(name, Clock(times)) for name in ("ann", "bob")]
    await RoundRobinGroupChat(members, max_turns=TURNS[-1] + 2 * WINDOW).run(task="go")
    return per_turn(times)


if __name__ == "__main__":
    chats, teams = asyncio.run(conversable()), asyncio.run(assistants())
    print(
        json.dumps(
            {f"chat {turn}": value for turn, value in chats.items()}
            | {f"team {turn}": value for turn, value in teams.items()}
        )
    )
