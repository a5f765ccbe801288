"""An order desk that may give money back by itself, but not much: a person allows larger refunds.

python -m examples.order_desk "I want my money back for order 7."
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from callboard import App, Question, asking_by
from callboard.agents import AssistantAgent
from callboard.models import FunctionCall
from callboard.teams import RoundRobinGroupChat
from callboard.tools import tool

from .models import call, in_turn, make_model, show

TASK = "I want my money back for order 7: it came broken."
SMALL = 2000  # cents


def is_large(arguments: Mapping[str, Any]) -> bool:
    return bool(arguments["cents"] > SMALL)


@tool
async def look_up(order: int) -> str:
    """Tells what is known of an order.

    Args:
        order: Number of the order.
    """
    return f"Order {order}: a teapot for 89.00 Euro, delivered yesterday."


@tool(needs_approval=is_large)
async def refund(order: int, cents: int) -> str:
    """Gives a customer money back.

    Args:
        order: Number of the order.
        cents: How much, in cents.
    """
    return f"Order {order}: {cents / 100:.2f} Euro are on their way."


def make_team() -> RoundRobinGroupChat:
    asks: list[FunctionCall] = [*call("look_up", order=7), *call("refund", order=7, cents=8900)]
    desk = AssistantAgent(
        "desk",
        make_model(in_turn(asks, "Your 89.00 Euro are on their way.")),
        tools=[look_up, refund],
        reflect_on_tool_use=True,
        description="Knows orders, and gives money back.",
        system_message="You help customers with their orders, with your tools.",
    )
    return RoundRobinGroupChat([desk], name="orders", max_turns=1)


app = App("orders")
app.team(make_team())


def ask(question: Question) -> str:
    """Ask whoever started the program; on the bus the question waits for `callboard runs answer` instead."""
    return input(f"{question.text} [yes / no: why / other arguments as JSON] ")


async def main() -> None:
    with asking_by(ask):
        await show(make_team(), TASK)


if __name__ == "__main__":
    asyncio.run(main())
