"""The runtimes of one test, waiting for a condition, and a look at the server after it."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar, overload

from callboard.app import App
from callboard.broker import BrokerSettings, TopicId
from callboard.broker.envelope import Pointer
from callboard.broker.limits import Limits
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.keys import topic as topic_suffix
from callboard.broker.redis.operations.deadletters import DeadLetterRecord, list_letters
from callboard.broker.redis.operations.entries import fields_of, read_envelope
from callboard.runtime.runtime import RedisAgentRuntime

#: Settings under which a test that fails does so soon.
QUICK: Final = {
    "retry_base": 0.01,
    "retry_cap": 0.05,
    "retry_outage": 1.0,
    "request_timeout": 10.0,
    "drain_grace": 5.0,
}


class Harness:
    """Runtimes that share a server and a namespace of their own; at the end all are closed and the namespace is deleted.

    What a memory service of the app remembers is in a folder of the harness, which is deleted as well.

    An async context manager.

    Args:
        url: of the server. None: a store in this process that belongs to this harness alone, which needs
            `callboard[testing]`.
        settings: fields of BrokerSettings; the rest has values under which a failing test fails soon.

    Attributes:
        url: of the server.
        namespace: of all its runtimes.
        settings: of all its runtimes.
    """

    def __init__(self, url: str | None = None, **settings: Any) -> None:
        self.namespace = f"test-{os.getpid()}-{os.urandom(4).hex()}"
        self.url = url or f"memory://{self.namespace}"
        self.settings = BrokerSettings(**{**QUICK, **settings, "namespace": self.namespace})
        self._runtimes: list[RedisAgentRuntime] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def runtime(self, **options: Any) -> RedisAgentRuntime:
        """A runtime without agents, as one more process would have; it is not started.

        Args:
            **options: of RedisAgentRuntime.
        """
        return self._keep(RedisAgentRuntime(self.url, settings=self.settings, **options))

    async def run(self, app: App, **options: Any) -> RedisAgentRuntime:
        """A runtime with the agents of an app, started and ready, as one more process of it would be.

        Args:
            app: the application.
            **options: of RedisAgentRuntime.from_app, such as `types`.
        """
        made = RedisAgentRuntime.from_app(
            app, self.url, namespace=self.namespace, settings=self.settings, **options
        )
        runtime = self._keep(made)
        runtime.start()
        await runtime.ready()
        return runtime

    def _keep(self, runtime: RedisAgentRuntime) -> RedisAgentRuntime:
        self._runtimes.append(runtime)
        runtime.connection.scratch = self._scratch
        return runtime

    def _scratch(self) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix=f"{self.namespace}-")
        return Path(self._folder.name)

    async def close(self) -> None:
        """Closes the runtimes, the newest first, and deletes the namespace; safe to repeat."""
        async with contextlib.AsyncExitStack() as ending:
            ending.callback(self._delete_folder)
            ending.push_async_callback(self._delete_namespace)
            while self._runtimes:
                ending.push_async_callback(self._runtimes.pop(0).close)

    def _delete_folder(self) -> None:
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.cleanup()

    async def _delete_namespace(self) -> None:
        await RedisTransport(self.url, self.settings).close(delete_namespace=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


T = TypeVar("T")
FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.1  # seconds between two looks


@overload
async def eventually(
    condition: Callable[[], Awaitable[T]], within: float = 10.0, what: str | Callable[[], object] = ""
) -> T: ...


@overload
async def eventually(
    condition: Callable[[], T], within: float = 10.0, what: str | Callable[[], object] = ""
) -> T: ...


async def eventually(
    condition: Callable[[], Any], within: float = 10.0, what: str | Callable[[], object] = ""
) -> Any:
    """Calls a function again and again until what it returns is true, and returns that.

    Args:
        condition: an ordinary or an async function without arguments.
        within: seconds after which the test fails.
        what: what is waited for, to be shown when it fails, or a function that is called then; "": the function's name.

    Raises:
        AssertionError: it was not true in time; says what was returned last.
    """
    deadline = time.monotonic() + within
    pause = FIRST_PAUSE
    while True:
        found = condition()
        value = await found if inspect.isawaitable(found) else found
        if value:
            return value
        if time.monotonic() > deadline:
            shown = what() if callable(what) else what or getattr(condition, "__name__", "")
            raise AssertionError(f"not within {within:g} s: {shown}; last seen: {value!r}")
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE)


ALL = 1_000_000  # entries or letters; more than a test makes


async def published(runtime: RedisAgentRuntime, topic: str | TopicId) -> list[Any]:
    """The messages that are in a topic, the oldest first, whether they were handled or not.

    Args:
        runtime: one whose registry knows the classes of the messages.
        topic: the type of a topic, or one topic with its source.

    Raises:
        DecodeError: one of them can't be read here.
        ClaimLostError: the body of one lay beside its stream and was deleted with the last commit that needed it.
    """
    name, source = (topic.type, topic.source) if isinstance(topic, TopicId) else (topic, None)
    await runtime.open()
    transport = runtime.transport
    stream = topic_suffix(name)
    raw = await transport.admin.command("XRANGE", transport.keys.of(stream), "-", "+", "COUNT", ALL)
    messages = [await _message(runtime, stream, item) for item in raw]
    return [message for key, message in messages if source is None or key == source]


async def _message(runtime: RedisAgentRuntime, stream: str, raw: Sequence[Any]) -> tuple[str, Any]:
    """The key that a message is for, and the message."""
    limits = Limits.of(runtime.settings)
    envelope = read_envelope(stream, raw[0].decode(), fields_of(raw[1]), limits)
    body = envelope.body
    if envelope.claimed:
        body = await runtime.transport.claims.fetch(Pointer.read(body))
        limits = Limits.of_claims(runtime.settings)
    return envelope.key, runtime.registry.decode(envelope.type, envelope.version, body, limits)


async def dead_letters(runtime: RedisAgentRuntime, agent_type: str | None = None) -> list[DeadLetterRecord]:
    """The messages that failed for good, the oldest first.

    Args:
        runtime: one of the application.
        agent_type: whose; None: of all.
    """
    await runtime.open()
    return list(reversed(await list_letters(runtime.transport, agent_type, ALL)))
