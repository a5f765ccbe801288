"""Handlers that ask, for processes of their own: `python -m tests.helpers.ask_work URL NAMESPACE` is a worker."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from pathlib import Path

from pydantic import BaseModel

from callboard import AgentId, App, FunctionCall, MessageContext, RoutedAgent, event
from callboard.process.worker import run_worker
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.tools import FunctionTool, StaticWorkbench, run_tools

app = App("asking")


class Trip(BaseModel):
    """Three places to be booked; the second one is full."""

    number: int = 0
    places: tuple[str, ...] = ("Oslo", "Rome", "Bern")


class Booked(BaseModel):
    """What came of it."""

    number: int
    told: list[str]


def note(what: str) -> None:
    """Adds one line to the file that LEDGER names."""
    with Path(os.environ["LEDGER"]).open("ab", buffering=0) as file:
        file.write(f"{what}\n".encode())


async def book(place: str, ctx: MessageContext) -> str:
    """Books."""
    note(f"book {place}")
    if place == "Rome":
        return f"Rome: {await ctx.ask('Rome is full. Elsewhere?', choices=('yes', 'no'))}"
    await asyncio.sleep(0.05)
    return place


@app.agent("planner", topics=["trips"])
class Planner(RoutedAgent):
    """Books three places at the same time."""

    class State(BaseModel):
        """How many trips it has planned, in their order."""

        planned: list[int] = []

    @event
    async def on_trip(self, message: Trip, ctx: MessageContext) -> None:
        calls = [
            FunctionCall(id=place, name="book", arguments=json.dumps({"place": place}))
            for place in message.places
        ]
        found = await run_tools(calls, StaticWorkbench([FunctionTool(book, "Books.")]), ctx)
        self.state.planned.append(message.number)
        told = [one.content for one in found]
        await self.tell(Booked(number=message.number, told=told), AgentId("booked", self.id.key))


@app.agent("booked")
class Results(RoutedAgent):
    """Keeps what came of the trips, in the order in which it hears of them."""

    class State(BaseModel):
        """What came of each trip."""

        trips: list[Booked] = []

    @event
    async def on_booked(self, message: Booked, ctx: MessageContext) -> None:
        self.state.trips.append(message)


async def main(url: str, namespace: str) -> None:
    """Works until it is told to stop."""
    runtime = RedisAgentRuntime.from_app(app, url, namespace=namespace)
    await run_worker(runtime, announce=lambda text: print(text, flush=True))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s", stream=sys.stdout)
    asyncio.run(main(*sys.argv[1:]))
