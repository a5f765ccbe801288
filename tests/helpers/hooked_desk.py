"""Teams whose runs others are told of by webhooks, and an agent that counts what comes in by them.

As `tests.helpers.hooked_desk:app` its receiver is at the address in RECEIVER.
"""

from __future__ import annotations

import os
from typing import Any

from pydantic import BaseModel

from callboard import App, MessageContext, RoutedAgent, event
from callboard.agents import UserProxyAgent
from callboard.broker import RetryPolicy
from callboard.hooks import incoming_webhook, webhook
from callboard.teams import RoundRobinGroupChat

from .receivers import SECRET
from .served_desk import clerk

QUICK = RetryPolicy(max_attempts=100, base=0.1, cap=0.3)
TEXT_SECRET = "a secret that is long enough"


class Repository(BaseModel):
    """A part of a push."""

    name: str


class Push(BaseModel):
    """What GitHub tells of a push, as far as it is wanted."""

    ref: str
    repository: Repository


class Paid(BaseModel):
    """What Stripe tells of a payment, as far as it is wanted."""

    id: str
    type: str


class Order(BaseModel):
    """An order."""

    number: int


def hooked(url: str, **options: Any) -> App:
    """An app whose receiver has this address."""
    app = App("hooked")
    desk = app.team(RoundRobinGroupChat([clerk("clerk")], name="desk", max_turns=1), serve=True)
    bank = app.team(
        RoundRobinGroupChat([UserProxyAgent("boss"), clerk("teller")], name="bank", max_turns=2), serve=True
    )
    how = {"retry": QUICK, "allow_private": True, "timeout": 1.0, **options}
    webhook(app, "crm", url, secret=SECRET, teams=[desk, bank], **how)

    @app.agent("counter", topics=["orders", "pushes", "payments"])
    class Counter(RoutedAgent):
        class State(BaseModel):
            heard: list[str] = []

        state: State

        @event
        async def on_order(self, message: Order, ctx: MessageContext) -> None:
            self.state.heard = [*self.state.heard, f"order {message.number}"]

        @event
        async def on_push(self, message: Push, ctx: MessageContext) -> None:
            self.state.heard = [*self.state.heard, f"push {message.ref}"]

        @event
        async def on_paid(self, message: Paid, ctx: MessageContext) -> None:
            self.state.heard = [*self.state.heard, f"{message.type} {message.id}"]

    incoming_webhook(app, "shop", topic="orders", message=Order, secret=[SECRET, "whsec_" + "A" * 32])
    incoming_webhook(
        app,
        "github",
        topic="pushes",
        message={"push": Push},
        secret=TEXT_SECRET,
        scheme="github",
        key=lambda push: push.repository.name,
    )
    incoming_webhook(
        app, "stripe", topic="payments", message=Paid, secret=lambda: TEXT_SECRET, scheme="stripe"
    )
    incoming_webhook(app, "later", topic="orders", message=Order, secret=lambda: os.environ["NO_SUCH_SECRET"])
    return app


app = hooked(os.environ.get("RECEIVER", "http://127.0.0.1:9/"))
