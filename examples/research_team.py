"""A model chooses who speaks: one looks things up, one writes and knows the reader, one checks.

python -m examples.research_team "How long are the Nile and the Amazon?"
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from callboard import App
from callboard.agents import AssistantAgent
from callboard.conditions import MaxMessageTermination, TextMentionTermination
from callboard.memory import ListMemory, MemoryContent, MemoryMimeType
from callboard.models import LLMMessage
from callboard.teams import SelectorGroupChat

from .models import call, in_turn, make_model, show

TASK = "How long are the Nile and the Amazon?"
LENGTHS = {"nile": "4,132 miles (6,650 km)", "amazon": "3,980 miles (6,400 km)"}


async def look_up(river: str) -> str:
    """Looks up how long a river is.

    Args:
        river: Its name in English.
    """
    return LENGTHS.get(river.lower(), "Nothing is known of it.")


def next_speaker(messages: Sequence[LLMMessage]) -> str:
    """The selector for which there is no key: it reads who has spoken in the prompt."""
    spoken = re.findall(r"^(researcher|writer|checker):", str(messages[-1].content), re.MULTILINE)
    return {"researcher": "writer", "writer": "checker"}.get(spoken[-1] if spoken else "", "researcher")


def text(messages: Sequence[LLMMessage]) -> str:
    """The writer for whom there is no key: it uses what the memory says of the reader."""
    is_metric = any("metric" in str(message.content) for message in messages)
    nile, amazon = ("6,650 km", "6,400 km") if is_metric else ("4,132 miles", "3,980 miles")
    return f"The Nile is {nile} long, the Amazon {amazon}."


def make_team() -> SelectorGroupChat:
    reader = MemoryContent(content="The reader wants metric units only.", mime_type=MemoryMimeType.TEXT)
    rivers = [*call("look_up", river="Nile"), *call("look_up", river="Amazon")]
    researcher = AssistantAgent(
        "researcher",
        make_model(in_turn(rivers)),
        tools=[look_up],
        description="Looks up how long rivers are. Speaks first.",
        system_message="You look up what is asked for.",
    )
    writer = AssistantAgent(
        "writer",
        make_model(text),
        memory=[ListMemory(memory_contents=[reader])],
        description="Writes the answer from what the researcher has found.",
        system_message="You write an answer in one sentence.",
    )
    checker = AssistantAgent(
        "checker",
        make_model("Both numbers are those of the researcher. DONE"),
        description="Checks the answer when the writer has written it.",
        system_message="You compare an answer with what was looked up. When it is right, say DONE.",
    )
    return SelectorGroupChat(
        [researcher, writer, checker],
        make_model(next_speaker),
        name="research",
        termination_condition=TextMentionTermination("DONE", sources=["checker"]) | MaxMessageTermination(20),
    )


app = App("research")
app.team(make_team())


async def main() -> None:
    await show(make_team(), TASK)


if __name__ == "__main__":
    asyncio.run(main())
