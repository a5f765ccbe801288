"""The messages and agents that are measured. Handlers do nothing, so that only the way to them is measured."""

from __future__ import annotations

import itertools

from pydantic import BaseModel

from callboard import App, MessageContext, RoutedAgent, TopicId, event, rpc


class Small(BaseModel):
    """Five fields, about 180 bytes of msgpack."""

    number: int
    name: str
    ratio: float
    tags: list[str]
    text: str


class Answer(BaseModel):
    """The reply to a request."""

    number: int


def small(number: int) -> Small:
    """The message number `number`."""
    return Small(
        number=number, name=f"customer-{number:08}", ratio=0.25, tags=["new", "north"], text="x" * 110
    )


BESIDE_TEXT = 78
"""Bytes of the message but for its text."""


def sized(number: int, size: int) -> Small:
    """The same with about so many bytes."""
    text = "x" * (size - BESIDE_TEXT)
    return Small(number=number, name=f"customer-{number:08}", ratio=0.25, tags=["new", "north"], text=text)


app = App("bench")


@app.agent("sink", topics=["in"])
class Sink(RoutedAgent):
    """Takes and forgets."""

    @event
    async def on_small(self, message: Small, ctx: MessageContext) -> None: ...


@app.agent("relay", topics=["relayed"])
class Relay(RoutedAgent):
    """Sends one message for each."""

    @event
    async def on_small(self, message: Small, ctx: MessageContext) -> None:
        await self.publish_message(message, TopicId("relayed-on", self.id.key))


@app.agent("answerer")
class Answerer(RoutedAgent):
    """Answers."""

    @rpc
    async def on_small(self, message: Small, ctx: MessageContext) -> Answer:
        return Answer(number=message.number)


@app.agent("counter", topics=["counted"])
class Counter(RoutedAgent):
    """Counts, in its committed state."""

    class State(BaseModel):
        """What each commit writes."""

        seen: int = 0

    @event
    async def on_small(self, message: Small, ctx: MessageContext) -> None:
        self.state.seen += 1


HOPS = ("hop-1", "hop-2", "hop-3", "hop-4")


def _hop(name: str, target: str) -> None:
    class Hop(RoutedAgent):
        """Passes on."""

        @event
        async def on_small(self, message: Small, ctx: MessageContext) -> None:
            await self.publish_message(message, TopicId(target, self.id.key))

    app.register(name, lambda: Hop(name), expected_class=Hop, subscriptions=[f"to-{name}"])


for _here, _next in itertools.pairwise(HOPS):
    _hop(_here, f"to-{_next}")
app.agent(HOPS[-1], topics=[f"to-{HOPS[-1]}"])(type("LastHop", (Sink,), {}))

FAN = tuple(f"fan-{i}" for i in range(10))
for _name in FAN:
    app.register(_name, lambda: Sink("fan"), expected_class=Sink, subscriptions=["fan"])


def wide_app(topics: int) -> App:
    """One agent type that subscribes to many topics."""
    made = App("wide")
    made.register(
        "sink", lambda: Sink("sink"), expected_class=Sink, subscriptions=[f"in-{i}" for i in range(topics)]
    )
    return made
