"""`callboard metrics`: what waits in a namespace, for Prometheus."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Annotated

import typer

from callboard.cli.options import Namespace, OptionalTarget, Url
from callboard.cli.output import hint, say
from callboard.cli.sessions import run, seen

if TYPE_CHECKING:
    from callboard.broker.redis.client.transport import RedisTransport
    from callboard.process.metrics import NamespaceMetrics, Routes

LOOK_EVERY = 1.0  # seconds between two looks at least, however many scrapers there are
LOOK_WITHIN = 10.0  # seconds in which the server has to answer a look


def metrics(
    target: OptionalTarget = None,
    port: Annotated[
        str | None,
        typer.Option(metavar="[ADDRESS:]PORT", help="Serve them until Ctrl-C. Default: print them once."),
    ] = None,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Print or serve metrics of a namespace for Prometheus.

    It is of the whole namespace, whichever processes work in it; run one for each namespace. What happens in a worker
    (times of handlers, models, tools) is told by that worker: `callboard worker --metrics-port`. A scrape takes a look that
    the server bounds, one in a second at most. docs/metrics.md lists all names.

      callboard metrics counting:app
      callboard metrics counting:app --port 9464
      callboard metrics --namespace counting --port 0.0.0.0:9464

    Exit codes: 0 printed, or ended by SIGTERM or Ctrl-C, 1 the port is taken, 2 wrong use, 3 no server.
    """
    from callboard.process.metrics import NamespaceMetrics, address_of, scrape

    listening = None if port is None else address_of(port)

    async def work() -> None:
        async with seen(target, url, namespace) as transport:
            found = NamespaceMetrics(transport.keys.namespace)
            looks = _Looks(transport, found)
            await looks.fresh()
            if listening is None:
                say(scrape(found.registry).decode().rstrip())
            else:
                await _serve(looks.routes(), listening)

    run(work())


class _Looks:
    """Looks at a namespace, one at a time and one in a second at most."""

    def __init__(self, transport: RedisTransport, found: NamespaceMetrics) -> None:
        from callboard.broker.redis.operations.pulse import Pulse

        self._transport = transport
        self._found = found
        self._pulse = Pulse(transport, ())
        self._types: tuple[str, ...] = ()
        self._at = 0.0
        self._looking = asyncio.Lock()

    async def fresh(self) -> None:
        """Look, unless that was just done.

        Raises:
            BrokerError: The server does not answer.
        """
        from callboard.broker.redis.operations.inspect import time_of
        from callboard.process.metrics import Look

        async with self._looking:
            if time.monotonic() - self._at < max(LOOK_EVERY, self._pulse.every):
                return
            begun = time.monotonic()
            await self._see_types()
            view = await self._pulse.look()
            questions = self._transport.keys.of("inputs")
            count = await self._transport.admin.command("ZCARD", questions)
            first = await self._transport.admin.command("ZRANGE", questions, 0, 0, "WITHSCORES")
            self._at = time.monotonic()
            self._found.seen(Look(view, count, time_of(first[1]) if first else None, self._at - begun))

    async def _see_types(self) -> None:
        from callboard.broker.redis.operations.inspect import pages
        from callboard.broker.redis.operations.pulse import Pulse

        names = await pages(self._transport, "HSCAN", "types")
        types = tuple(sorted(name.decode(errors="replace") for name in names[::2]))
        if types != self._types:
            self._types, self._pulse = types, Pulse(self._transport, types)

    def routes(self) -> Routes:
        """The pages, each answered in a thread."""
        from callboard.broker.errors import BrokerError
        from callboard.process.metrics import TEXT, Answer, answers_in_time, said, scrape

        loop = asyncio.get_running_loop()

        def looked() -> str:
            """A sentence; "" when the server has answered."""
            try:
                asyncio.run_coroutine_threadsafe(self.fresh(), loop).result(LOOK_WITHIN)
            except (BrokerError, TimeoutError) as error:
                return str(error) or f"the server did not answer within {LOOK_WITHIN:g} s"
            return ""

        def page() -> Answer:
            failure = looked()
            return (
                Answer(503, TEXT, failure.encode())
                if failure
                else Answer(200, TEXT, scrape(self._found.registry))
            )

        def ready() -> Answer:
            failure = looked()
            return said(503, "not ready", detail=failure) if failure else said(200, "ready")

        def alive() -> Answer:
            return said(200, "alive") if answers_in_time(loop) else said(503, "blocked")

        return {"/metrics": page, "/healthz": alive, "/readyz": ready}


async def _serve(routes: Routes, listening: tuple[str, int]) -> None:
    from callboard.process.metrics import MetricsServer
    from callboard.process.worker import StopRequest

    stop = StopRequest()
    with stop.on_signals(), MetricsServer(*listening, routes) as server:
        hint(f"metrics at {server.url}/metrics")
        await stop.drain.wait()
