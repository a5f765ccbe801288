"""A team of three assistants for tests that kill its processes: a tool that writes lines, a memory, and streamed answers.

Where they die, dying.py is told.
"""

from __future__ import annotations

import os
from pathlib import Path

from callboard import App
from callboard.agents import AssistantAgent
from callboard.memory import ListMemory, MemoryContent
from callboard.models.openai import OpenAIChatCompletionClient
from callboard.teams import RoundRobinGroupChat
from tests.helpers.dying import die_where_told

TURNS = 12


async def write_note(text: str) -> str:
    """Write a line."""
    with Path(os.environ["NOTES"]).open("a") as notes:
        notes.write(f"{text}\n")
    return "written"


def assistant(name: str) -> AssistantAgent:
    return AssistantAgent(
        name,
        OpenAIChatCompletionClient(model="gpt-4o-mini", api_key="none"),
        tools=[write_note],
        memory=[
            ListMemory(memory_contents=[MemoryContent(content=f"{name} is brief.", mime_type="text/plain")])
        ],
        system_message=name,
        reflect_on_tool_use=True,
        model_client_stream=True,
    )


app = App("research")
team = RoundRobinGroupChat(
    [assistant(name) for name in ("planner", "writer", "critic")], name="research", max_turns=TURNS
)
app.team(team)


die_where_told()
