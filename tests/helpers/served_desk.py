"""A team that answers, one that asks its boss first, and one that is not served; for tests of doors."""

from __future__ import annotations

from collections.abc import Sequence

from callboard import App
from callboard.agents import AssistantAgent, UserProxyAgent
from callboard.memory.llm_messages import LLMMessage
from callboard.models import ReplayChatCompletionClient
from callboard.teams import RoundRobinGroupChat


def clerk(name: str) -> AssistantAgent:
    return AssistantAgent(name, ReplayChatCompletionClient([], default=_said))


def _said(messages: Sequence[LLMMessage]) -> str:
    return f"You said: {messages[-1].content}"


app = App("desk")
app.team(RoundRobinGroupChat([clerk("clerk")], name="desk", max_turns=1), serve="Answers questions.")
app.team(
    RoundRobinGroupChat([UserProxyAgent("boss"), clerk("teller")], name="bank", max_turns=2),
    serve="Pays, when the boss says so.",
)
app.team(RoundRobinGroupChat([clerk("cook")], name="kitchen", max_turns=1))
