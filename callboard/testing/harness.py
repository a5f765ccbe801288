"""The runtimes of one test."""

from __future__ import annotations

import contextlib
import os
from types import TracebackType
from typing import Any, Final, Self

from callboard.app import App
from callboard.broker import BrokerSettings
from callboard.broker.redis.client.transport import RedisTransport
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
        return runtime

    async def close(self) -> None:
        """Closes the runtimes, the newest first, and deletes the namespace; safe to repeat."""
        async with contextlib.AsyncExitStack() as ending:
            ending.push_async_callback(self._delete_namespace)
            while self._runtimes:
                ending.push_async_callback(self._runtimes.pop(0).close)

    async def _delete_namespace(self) -> None:
        await RedisTransport(self.url, self.settings).close(delete_namespace=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
