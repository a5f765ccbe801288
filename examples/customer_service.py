"""A group chat with AG2's names: a customer is handed over by a model, by what a function says, and by context variables.

python -m examples.customer_service "I want my money back for order 7."
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from callboard import App
from callboard.ag2 import (
    AgentTarget,
    ContextExpression,
    ContextVariables,
    ConversableAgent,
    DefaultPattern,
    ExpressionContextCondition,
    OnCondition,
    OnContextCondition,
    ReplyResult,
    StringLLMCondition,
)
from callboard.groupchat import GroupChatTeam
from callboard.models import FunctionCall, LLMMessage

from .models import call, in_turn, make_model, show

TASK = "I want my money back for order 7: it came broken."
PRICES = {7: 900}  # euros, by the number of the order


def refund(order: int, context_variables: ContextVariables) -> str:
    """Gives a customer the money for an order back."""
    amount = PRICES.get(order, 0)
    if amount > 500 and context_variables.get("approved") != order:
        context_variables["waits_for"] = amount
        return f"{amount} euros are more than you may pay."
    return f"{amount} euros are paid."


def pays(messages: Sequence[LLMMessage]) -> str | list[FunctionCall]:
    """What the script of the second one says: it pays until that is done."""
    is_paid = "are paid" in str(messages[-1].content)
    return "Your money is on its way." if is_paid else call("refund", order=7)


def make_team() -> GroupChatTeam:
    triage = ConversableAgent(
        "triage",
        "You find out what the customer wants, and hand over to who can do it.",
        llm_config=make_model(in_turn(call("transfer_to_refunds_1"))),
    )
    refunds = ConversableAgent(
        "refunds",
        "You give money back, and tell the customer.",
        llm_config=make_model(pays),
        functions=refund,
    )
    boss = ConversableAgent(
        "boss",
        "You decide on large amounts.",
        llm_config=make_model(in_turn(call("approve", order=7))),
    )

    @boss.register_for_llm(description="Allows to give the money for an order back.")
    def approve(order: int) -> ReplyResult:
        approved = ContextVariables({"approved": order, "waits_for": 0})
        return ReplyResult(f"Order {order} may be paid.", AgentTarget(refunds), approved)

    triage.handoffs.add_llm_condition(
        OnCondition(AgentTarget(refunds), StringLLMCondition("The customer wants money back."))
    )
    is_large = ExpressionContextCondition(ContextExpression("${waits_for} > 500"))
    refunds.handoffs.add_context_condition(OnContextCondition(AgentTarget(boss), is_large))
    variables = ContextVariables({"waits_for": 0})
    pattern = DefaultPattern(triage, [triage, refunds, boss], context_variables=variables)
    return pattern.team(name="service")


app = App("service")
app.team(make_team())


async def main() -> None:
    await show(make_team(), TASK)


if __name__ == "__main__":
    asyncio.run(main())
