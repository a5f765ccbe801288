"""A writer and a critic, streamed from a small local model: for tests that kill their processes.

``DIES_AT`` names a step of the turn loop, `<type> <step>`: a process of that type kills itself with -9 when it reaches the
step, once in the folder ``DEATHS``.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from callboard import App
from callboard.agents import AssistantAgent
from callboard.models import ModelInfo
from callboard.models.openai import OpenAIChatCompletionClient
from callboard.teams import RoundRobinGroupChat
from callboard.teams.steps import watch_steps

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


async def die(step: str) -> None:
    mine = sys.argv[sys.argv.index("--type") + 1]
    if f"{mine} {step}" != os.environ.get("DIES_AT"):
        return
    mark = Path(os.environ["DEATHS"]) / "died"
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


if "DIES_AT" in os.environ:  # not in the process of a test that imports the team
    watch_steps(die)
