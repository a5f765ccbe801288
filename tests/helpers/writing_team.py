"""A writer and a critic, streamed from a small local model: for tests that kill their processes.

Where they die, dying.py is told.
"""

from __future__ import annotations

from callboard import App
from callboard.agents import AssistantAgent
from callboard.models import ModelInfo
from callboard.models.openai import OpenAIChatCompletionClient
from callboard.teams import RoundRobinGroupChat
from tests.helpers.dying import die_where_told

TURNS = 3  # writer, critic, writer
TASK = "Write two sentences about a lighthouse at night."
INFO = ModelInfo(
    vision=False, function_calling=False, json_output=True, family="unknown", structured_output=True
)


def assistant(name: str, system_message: str) -> AssistantAgent:
    client = OpenAIChatCompletionClient(
        "smollm2",
        api_key="none",
        model_info=INFO,
        temperature=0.0,
        seed=1,
        max_tokens=60,
        timeout=60,
    )
    return AssistantAgent(name, client, system_message=system_message, model_client_stream=True)


app = App("writing")
team = RoundRobinGroupChat(
    [
        assistant("writer", "You write short texts, and improve them when you are told how."),
        assistant("critic", "You say in two sentences how the last text could be better."),
    ],
    name="writing",
    max_turns=TURNS,
)
app.team(team)


die_where_told()
