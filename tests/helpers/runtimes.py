"""Runtimes of one namespace, and the small agents that their tests are made of."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pydantic import BaseModel

from callboard import (
    App,
    ClosureAgent,
    MessageContext,
    RedisAgentRuntime,
    RoutedAgent,
    TypeSubscription,
    event,
)
from callboard.broker import BrokerSettings
from callboard.core.closure import Closure

from .processes import Process


class Note(BaseModel):
    """An event."""

    text: str = ""


class Ask(BaseModel):
    """A request."""

    text: str = ""


class Answer(BaseModel):
    """A response."""

    text: str = ""


class Heard(NamedTuple):
    """What an agent got."""

    agent: str
    text: str
    topic: str | None
    sender: str | None


class Listener(RoutedAgent):
    """Writes down every note."""

    def __init__(self, heard: list[Heard]) -> None:
        super().__init__("listens")
        self.heard = heard

    @event
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        topic, sender = (None if one is None else str(one) for one in (ctx.topic_id, ctx.sender))
        self.heard.append(Heard(str(self.id), message.text, topic, sender))


def quick(namespace: str, **changes: Any) -> BrokerSettings:
    """Settings under which a failing test fails soon."""
    values = {"retry_base": 0.01, "retry_cap": 0.02, "request_timeout": 10.0, "drain_grace": 5.0}
    return BrokerSettings(namespace=namespace, **{**values, **changes})


class Runtimes:
    """Makes runtimes of one namespace; `close` ends them all and deletes it.

    Args:
        url: the server.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.namespace = f"runtime-{os.urandom(4).hex()}"
        self._made: list[RedisAgentRuntime] = []

    def __iter__(self) -> Iterator[RedisAgentRuntime]:
        return iter(self._made)

    def new(self, *, settings: dict[str, Any] | None = None, **options: Any) -> RedisAgentRuntime:
        """A runtime with fields of BrokerSettings in `settings` and arguments of RedisAgentRuntime."""
        return self._keep(
            RedisAgentRuntime(self.url, settings=quick(self.namespace, **settings or {}), **options)
        )

    def of(self, app: App, *, settings: dict[str, Any] | None = None, **options: Any) -> RedisAgentRuntime:
        """A runtime for an app."""
        chosen = quick(self.namespace, **settings or {})
        return self._keep(
            RedisAgentRuntime.from_app(app, self.url, namespace=self.namespace, settings=chosen, **options)
        )

    def _keep(self, runtime: RedisAgentRuntime) -> RedisAgentRuntime:
        self._made.append(runtime)
        return runtime

    async def started(self, **options: Any) -> RedisAgentRuntime:
        """A new runtime that runs."""
        runtime = self.new(**options)
        runtime.start()
        await runtime.ready()
        return runtime

    async def close(self) -> None:
        """Ends every runtime and deletes the namespace."""
        for runtime in self._made:
            await runtime.close()
        sweeper = self.new()
        await sweeper.open()
        await sweeper.transport.delete_namespace()
        await sweeper.close()


async def end(runtime: RedisAgentRuntime, processes: Iterable[Process]) -> None:
    """Ends what a test has started in a namespace of its own: the processes, the namespace, and the runtime of the test."""
    for process in processes:
        process.close()
    await runtime.transport.delete_namespace()
    await runtime.close()


async def closure(runtime: RedisAgentRuntime, type: str, function: Closure, *topics: str) -> None:
    """Registers a function as an agent type that subscribes to some topics."""

    def subscriptions() -> list[TypeSubscription]:
        return [TypeSubscription(topic, type) for topic in topics]

    await ClosureAgent.register_closure(runtime, type, function, subscriptions=subscriptions)


async def listener(runtime: RedisAgentRuntime, type: str, *topics: str) -> list[Heard]:
    """Registers a Listener that subscribes to some topics; returns what its agents hear."""
    heard: list[Heard] = []
    await Listener.register(runtime, type, lambda: Listener(heard))
    for topic in topics:
        await runtime.add_subscription(TypeSubscription(topic, type))
    return heard


async def stored(runtime: RedisAgentRuntime, *suffixes: str) -> list[str]:
    """Which keys of the namespace exist, of those that begin with one of these suffixes."""
    transport = runtime.transport
    names = await transport.names_after(transport.keys.prefix)
    return sorted(name for name in names if name.startswith(suffixes or ("",)))


async def letters(runtime: RedisAgentRuntime, agent_type: str) -> list[dict[str, str]]:
    """The dead letters of an agent type, without their bodies."""
    transport = runtime.transport
    found = await transport.admin.command("XRANGE", transport.keys.of(f"dead:{agent_type}"), "-", "+")
    read = []
    for _, flat in found:
        fields = dict(zip(flat[::2], flat[1::2], strict=True))
        read.append({n.decode(): v.decode() for n, v in fields.items() if n not in (b"body", b"head")})
    return read
