"""A graph with a parallel branch: two editors read a draft at the same time, and a third agent joins what they say.

python -m examples.parallel_graph "A sentence about tea."
"""

from __future__ import annotations

import asyncio

from callboard import App
from callboard.agents import AssistantAgent
from callboard.teams import DiGraphBuilder, GraphFlow

from .models import make_model, show

TASK = "A sentence about tea."


def an_agent(name: str, script: str, task: str) -> AssistantAgent:
    return AssistantAgent(
        name, make_model(script), description=task, system_message=f"You are one of a team. {task}"
    )


def make_team() -> GraphFlow:
    writer = an_agent("writer", "Tea are a plant which one drinks.", "Write a draft in one sentence.")
    grammar = an_agent("grammar", "It is 'tea is'.", "Say what is wrong with the grammar of the draft.")
    style = an_agent("style", "A plant is not drunk.", "Say what is wrong with the style of the draft.")
    final = an_agent(
        "final", "Tea is drunk all over the world.", "Write the sentence as both editors want it."
    )
    builder = DiGraphBuilder()
    for agent in (writer, grammar, style, final):
        builder.add_node(agent)
    builder.add_edge(writer, grammar).add_edge(writer, style)
    builder.add_edge(grammar, final).add_edge(style, final)
    return GraphFlow(builder.get_participants(), builder.build(), name="editing")


app = App("editing")
app.team(make_team())


async def main() -> None:
    await show(make_team(), TASK)


if __name__ == "__main__":
    asyncio.run(main())
