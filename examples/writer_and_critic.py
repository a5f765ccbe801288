"""A writer and a critic, one after the other, until the critic is content.

python -m examples.writer_and_critic "Two lines about the sea."
"""

from __future__ import annotations

import asyncio

from callboard import App
from callboard.agents import AssistantAgent
from callboard.conditions import MaxMessageTermination, TextMentionTermination
from callboard.teams import RoundRobinGroupChat

from .models import in_turn, make_model, show

TASK = "Two lines about the sea, that rhyme."


def make_team() -> RoundRobinGroupChat:
    writer = AssistantAgent(
        "writer",
        make_model(
            in_turn(
                "The sea is wide and blue.\nIt has a lot of water.",
                "The sea is wide, the sea is blue.\nIt sends its waves to me and you.",
            )
        ),
        description="Writes.",
        system_message="You write what you are asked for, and write it anew when it is criticised. Say nothing else.",
        model_client_stream=True,
    )
    critic = AssistantAgent(
        "critic",
        make_model(in_turn("The second line does not rhyme with the first one.", "Now it does. APPROVE")),
        description="Criticises.",
        system_message="You say in one sentence what is wrong with a text. When nothing is, answer APPROVE.",
        model_client_stream=True,
    )
    return RoundRobinGroupChat(
        [writer, critic],
        name="writing",
        termination_condition=TextMentionTermination("APPROVE", sources=["critic"])
        | MaxMessageTermination(12),
    )


app = App("writing")
app.team(make_team())


async def main() -> None:
    await show(make_team(), TASK)


if __name__ == "__main__":
    asyncio.run(main())
