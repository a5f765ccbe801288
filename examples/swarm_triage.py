"""A triage agent that hands customers over to who can help them.

python -m examples.swarm_triage "I want my money back for order 7."
"""

from __future__ import annotations

import asyncio

from callboard import App
from callboard.agents import AssistantAgent, Handoff
from callboard.conditions import MaxMessageTermination, TextMentionTermination
from callboard.teams import Swarm

from .models import call, in_turn, make_model, show

TASK = "I want my money back for order 7: it came broken."


async def refund(order: int) -> str:
    """Gives a customer the money for an order back.

    Args:
        order: Number of the order.
    """
    return f"Order {order} is refunded."


async def track(order: int) -> str:
    """Tells where an order is.

    Args:
        order: Number of the order.
    """
    return f"Order {order} is on its way."


def make_team() -> Swarm:
    triage = AssistantAgent(
        "triage",
        make_model(in_turn(call("transfer_to_refunds"))),
        handoffs=[
            Handoff(target="refunds", description="The customer wants money back."),
            Handoff(target="shipping", description="The customer wants to know where an order is."),
        ],
        description="Finds out what a customer wants.",
        system_message="You find out what the customer wants, and hand over to who can do it.",
    )
    refunds = AssistantAgent(
        "refunds",
        make_model(in_turn(call("refund", order=7), "Your money for order 7 is on its way. TERMINATE")),
        tools=[refund],
        handoffs=["triage"],
        max_tool_iterations=3,
        description="Gives money back.",
        system_message="You give money back. Then tell the customer, and end with TERMINATE.",
    )
    shipping = AssistantAgent(
        "shipping",
        make_model(in_turn(call("track", order=7), "It is on its way. TERMINATE")),
        tools=[track],
        handoffs=["triage"],
        max_tool_iterations=3,
        description="Knows where orders are.",
        system_message="You tell customers where their orders are, and end with TERMINATE.",
    )
    return Swarm(
        [triage, refunds, shipping],
        name="support",
        termination_condition=TextMentionTermination("TERMINATE", sources=["refunds", "shipping"])
        | MaxMessageTermination(20),
    )


app = App("support")
app.team(make_team())


async def main() -> None:
    await show(make_team(), TASK)


if __name__ == "__main__":
    asyncio.run(main())
