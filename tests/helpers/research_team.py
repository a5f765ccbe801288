"""A team of three assistants for tests that kill its processes: a tool that writes lines, a memory, and streamed answers.

``DIES_AT`` names steps of the turn loop, `<type> <step>`, separated by commas: a process of that type kills itself with -9
when it reaches the step, once in the folder ``DEATHS``.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from callboard import App
from callboard.agents import AssistantAgent
from callboard.memory import ListMemory, MemoryContent
from callboard.models.openai import OpenAIChatCompletionClient
from callboard.teams import RoundRobinGroupChat
from callboard.teams.steps import watch_steps

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


async def die(step: str) -> None:
    mine = sys.argv[sys.argv.index("--type") + 1]
    death = f"{mine} {step}"
    if death not in os.environ["DIES_AT"].split(","):
        return
    mark = Path(os.environ["DEATHS"]) / death.replace(" ", "-")
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


if "DIES_AT" in os.environ:  # not in the process of a test that imports the team
    watch_steps(die)
