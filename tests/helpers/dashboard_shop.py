"""A shop for tests of the dashboard, and for its pictures: a desk that asks before it pays, agents that pack and that fail.

Its models write word by word, `PACE` seconds for each.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from pydantic import BaseModel

from callboard import App, MessageContext, RoutedAgent, event
from callboard.agents import AssistantAgent
from callboard.memory.llm_messages import FunctionCall, FunctionExecutionResultMessage, LLMMessage
from callboard.messages import StructuredMessage
from callboard.models import CreateResult, ReplayChatCompletionClient, RequestUsage
from callboard.models.replay import Answer, Streamed
from callboard.teams import RoundRobinGroupChat
from callboard.tools import FunctionTool

PACE = float(os.environ.get("PACE", "0.01"))
ORDER = '{"order": 7719, "item": "Teapot, blue", "price": 89.00, "currency": "EUR", "carrier": "DHL"}'
HOSTILE = "<img src=x onerror=\"document.title='owned'\"> \u202egnp.exe \u0007 __proto__"

app = App("shop")


# The desk


class Typing(ReplayChatCompletionClient):
    """Writes word by word."""

    async def create_stream(
        self, messages: Sequence[LLMMessage], **options: Any
    ) -> AsyncGenerator[str | CreateResult, None]:
        async for piece in super().create_stream(messages, **options):
            if isinstance(piece, str):
                await asyncio.sleep(PACE)
                yield piece
            else:
                used = RequestUsage(420 + 90 * len(messages), 30)
                yield piece.model_copy(update={"usage": used})


async def look_up_order(order: int) -> str:
    """Tells what is known of an order."""
    await asyncio.sleep(PACE)
    return ORDER


async def refund(order: int, cents: int) -> str:
    """Gives money back."""
    return f"{cents / 100:.2f} EUR of order {order} are on their way."


def looks_up(messages: Sequence[LLMMessage]) -> Answer:
    if isinstance(messages[-1], FunctionExecutionResultMessage):
        return (
            "Order 7719: a blue teapot for 89.00 EUR, delivered on 22 November. Damaged on arrival: a full refund within "
            f"30 days, no return needed below 100 EUR. {HOSTILE}"
        )
    return [FunctionCall("1", '{"order": 7719}', "look_up_order")]


def pays(messages: Sequence[LLMMessage]) -> Answer:
    last = messages[-1]
    if isinstance(last, FunctionExecutionResultMessage):
        return f"Done. {last.content[0].content} Is there anything else that I can do for you?"
    return [FunctionCall("2", '{"order": 7719, "cents": 8900}', "refund")]


def member(name: str, answers: Any, *tools: Any) -> AssistantAgent:
    return AssistantAgent(
        name,
        Typing([], default=answers),
        tools=list(tools),
        reflect_on_tool_use=True,
        model_client_stream=True,
    )


TRIAGE = "A refund for a damaged delivery. The order has to be looked up first, then what our policy says about it."
app.team(
    RoundRobinGroupChat(
        [
            member("triage", TRIAGE),
            member("researcher", looks_up, look_up_order),
            member("refunds", pays, FunctionTool(refund, needs_approval=True)),
        ],
        name="desk",
        max_turns=3,
    )
)
app.team(
    RoundRobinGroupChat(
        [member("poet", "The sea keeps what it is told, and tells it again.")], name="poets", max_turns=1
    )
)


class Verdict(BaseModel):
    """What a judge says: a class that only those who have this module know."""

    guilty: bool
    why: str


def court() -> RoundRobinGroupChat:
    """A team that says something of a class of its own."""
    says = ReplayChatCompletionClient(default='{"guilty": false, "why": "It was the carrier."}')
    judge = AssistantAgent("judge", says, output_content_type=Verdict)
    return RoundRobinGroupChat(
        [judge], name="court", max_turns=1, custom_message_types=[StructuredMessage[Verdict]]
    )


app.team(court())


async def one_word_at_a_time(messages: Sequence[LLMMessage]) -> Answer:
    return Streamed(["One ", "word ", *(["and another "] * 1000), "at a time."])


class Slow(Typing):
    """Writes for a long time."""

    async def create_stream(
        self, messages: Sequence[LLMMessage], **options: Any
    ) -> AsyncGenerator[str | CreateResult, None]:
        async for piece in super().create_stream(messages, **options):
            yield piece
            await asyncio.sleep(0.05)


app.team(
    RoundRobinGroupChat(
        [AssistantAgent("typist", Slow([], default=one_word_at_a_time), model_client_stream=True)],
        name="slow",
        max_turns=1,
    )
)


# Agents that are no team


class RefusedError(Exception):
    """Nothing helps."""

    permanent = True


class Order(BaseModel):
    """Something to pack."""

    number: int
    item: str = "teapot"


class Invoice(BaseModel):
    """Something to send."""

    to: str
    order: int
    text: str = HOSTILE


class Packed(BaseModel):
    """What a packer has done."""

    parcels: int = 0
    last: str = ""


@app.agent("packer", topics=["orders"])
class Packer(RoutedAgent[Packed]):
    """Packs."""

    @event
    async def on_order(self, message: Order, ctx: MessageContext) -> None:
        await asyncio.sleep(PACE)
        self.state.parcels += 1
        self.state.last = message.item


@app.agent("mailer", topics=["invoices"])
class Mailer(RoutedAgent):
    """Fails for good."""

    @event
    async def on_invoice(self, message: Invoice, ctx: MessageContext) -> None:
        raise RefusedError(f"smtp.example.com refused the letter to {message.to}")
