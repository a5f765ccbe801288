"""A team that asks its boss, and an agent that fails with some messages; for tests of the dashboard."""

from __future__ import annotations

from pydantic import BaseModel

from callboard import App, MessageContext, RoutedAgent, event
from callboard.agents import UserProxyAgent
from callboard.teams import RoundRobinGroupChat

from .dashboard_shop import court
from .served_desk import clerk


class Order(BaseModel):
    number: int
    text: str = ""


app = App("watched")
app.team(RoundRobinGroupChat([UserProxyAgent("boss"), clerk("teller")], name="bank", max_turns=2))
app.team(court())


@app.agent("packer", topics=["orders"])
class Packer(RoutedAgent):
    class State(BaseModel):
        seen: int = 0

    @event
    async def on_order(self, message: Order, ctx: MessageContext) -> None:
        if message.number < 0:
            raise ValueError(f"{message.text} can't be packed")
        self.state.seen += 1
