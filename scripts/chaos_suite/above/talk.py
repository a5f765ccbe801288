"""Two agents that say how much they have read: one that forgot something, or heard it twice, says another number."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from callboard import App
from callboard.agents import AssistantAgent
from callboard.memory.llm_messages import LLMMessage
from callboard.models import CreateResult, ReplayChatCompletionClient
from callboard.teams import RoundRobinGroupChat

NAME = "talk"
TURNS = 10
PACE = 0.03  # seconds for an answer


class Slow(ReplayChatCompletionClient):
    """Takes its time, so that there is a turn to save in the middle of."""

    async def create(self, messages: Sequence[LLMMessage], **options: Any) -> CreateResult:
        await asyncio.sleep(PACE)
        return await super().create(messages, **options)


def _member(name: str) -> AssistantAgent:
    return AssistantAgent(name, Slow(default=lambda read: f"{name} has read {len(read)}"))


def team() -> RoundRobinGroupChat:
    """One that is nobody else's."""
    return RoundRobinGroupChat([_member("a"), _member("b")], name=NAME, max_turns=TURNS)


app = App("talk")
app.team(team())


def thread_of(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What was said, according to a saved state."""
    thread: list[dict[str, Any]] = state["agent_states"]["RoundRobinGroupChatManager"]["message_thread"]
    return thread


def torn(state: Mapping[str, Any]) -> list[str]:
    """The members whose memory and the thread differ about what they have said."""
    thread, found = thread_of(state), []
    for name in ("a", "b"):
        own = state["agent_states"].get(name, {}).get("agent_state", {})
        said = [message["content"] for message in thread if message["source"] == name]
        context = own.get("llm_context", {}).get("messages", [])
        remembered = [one["content"] for one in context if one["type"] == "AssistantMessage"]
        if said != remembered:
            found.append(f"{name} said {said} and remembers {remembered}")
    return found
