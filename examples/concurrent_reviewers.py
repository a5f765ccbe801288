"""Three reviewers read a change at the same time; a fourth one sums up.

python -m examples.concurrent_reviewers "def add(a, b): return eval(f'{a}+{b}')"
"""

from __future__ import annotations

import asyncio

from callboard import App
from callboard.agents import AssistantAgent
from callboard.teams import ConcurrentGroupChat

from .models import make_model, show

TASK = "def add(a, b): return eval(f'{a}+{b}')"
REVIEWS = {
    "security": "eval runs whatever is given to it.",
    "speed": "eval compiles the expression in every call.",
    "style": "There are no types.",
}


def make_team() -> ConcurrentGroupChat:
    reviewers = [
        AssistantAgent(
            topic,
            make_model(review),
            description=f"Reviews the {topic} of code.",
            system_message=f"You review code for its {topic} only. Say in one sentence what matters most.",
        )
        for topic, review in REVIEWS.items()
    ]
    lead = AssistantAgent(
        "lead",
        make_model("Return a + b, with types, and without eval."),
        description="Sums up reviews.",
        system_message="You sum up what the reviewers say: what has to be done, in one sentence.",
    )
    return ConcurrentGroupChat(reviewers, aggregator=lead, name="reviewing")


app = App("reviewing")
app.team(make_team())


async def main() -> None:
    await show(make_team(), TASK)


if __name__ == "__main__":
    asyncio.run(main())
