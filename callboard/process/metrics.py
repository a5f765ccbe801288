"""Metrics of a worker and of a namespace for Prometheus, and the small HTTP server that gives them out.

A worker counts what happens in it, by the events of `callboard.broker.telemetry`; without `--metrics-port` nothing listens,
and nothing is counted. What waits belongs to no worker: `NamespaceMetrics` makes that of a look (`Pulse`) at each scrape.
Labels are names of types, models and tools only, and so many of each at most: never a key, a message, a run.

Needs `pip install 'callboard[metrics]'`.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from callboard.broker.errors import SettingsError
from callboard.broker.telemetry import (
    Beat,
    Connected,
    DeadLettered,
    Disconnected,
    Dropped,
    Event,
    Fenced,
    Handled,
    ModelAsked,
    Published,
    Released,
    Retried,
    Started,
    ToolCalled,
    WaitsForAnswer,
    attach,
)
from callboard.foundation import ActorError, MissingPackageError

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from callboard.broker.redis.operations.views import PulseView


MOST: Final = {"type": 200, "model": 50, "tool": 200}
"""Names of each kind that get series of their own."""
OTHER: Final = "other"
"""The name of all further ones."""
SECONDS: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0, 600.0)
"""Upper bounds of the buckets of histograms."""
LOOP_PATIENCE = 5.0
"""Seconds in which an event loop has to answer to be called alive."""
TEXT: Final = "text/plain; charset=utf-8"


class MetricsError(ActorError):
    """Metrics can't be given out, such as where the port is taken."""

    template = "metrics can't be given out at {address}: {reason}"

    address: str
    reason: str


class Names:
    """Names that may be labels: the first ones that came of each kind; all further ones are `other`."""

    def __init__(self, most: Mapping[str, int] = MOST) -> None:
        self._most = most
        self._known: dict[str, set[str]] = {kind: set() for kind in most}

    def label(self, kind: str, name: str) -> str:
        """The label of a name."""
        known = self._known[kind]
        if name not in known:
            if len(known) >= self._most[kind]:
                return OTHER
            known.add(name)
        return name


class WorkerMetrics:
    """What happens in this process, counted from the events of the runtime.

    Args:
        namespace: A label of every metric.

    Attributes:
        registry: All its metrics.
        beaten: When the server last answered a heartbeat, by `time.monotonic()`; 0.0: it has not, or the lease is lost.

    Raises:
        MissingPackageError: prometheus-client is not installed (an ImportError).
    """

    def __init__(self, namespace: str) -> None:
        self.registry = _registry()
        self.beaten = 0.0
        self._names = Names()
        self._metrics = _WorkerTable.made(self.registry, namespace)

    def listen(self) -> Callable[[], None]:
        """Count from now on; the result ends that."""
        return attach(self.heard)

    def heard(self, event: Event) -> None:
        """Count an event."""
        match event:
            case Started():
                self._metrics.waited.labels(self._type(event.agent)).observe(event.waited)
            case Handled():
                self._metrics.handling.labels(self._type(event.agent)).observe(event.seconds)
                self._ended(event.agent, "committed")
            case Retried():
                self._ended(event.agent, "retried")
            case DeadLettered():
                self._ended(event.agent, "dead")
            case Released():
                self._ended(event.agent, "released")
            case WaitsForAnswer():
                self._ended(event.agent, "suspended")
            case Dropped():
                self._ended(event.agent, "dropped")
            case Published():
                self._metrics.published.labels(event.stream.partition(":")[0]).inc()
            case _:
                self._heard_of_process(event)

    def _heard_of_process(self, event: Event) -> None:
        match event:
            case Beat():
                self.beaten = time.monotonic()
                self._metrics.running.set(event.running)
                self._metrics.held.set(event.held)
            case Fenced():
                self.beaten = 0.0
                self._metrics.fenced.inc()
            case Connected():
                self._metrics.connected.set(1)
                if event.is_again:
                    self._metrics.reconnects.inc()
            case Disconnected():
                self._metrics.connected.set(0)
            case ModelAsked():
                self._model(event)
            case ToolCalled():
                tool = self._names.label("tool", event.tool)
                self._metrics.tool_calls.labels(tool, event.status).inc()
                self._metrics.tool_seconds.labels(tool).observe(event.seconds)
            case _:
                pass

    def _ended(self, agent: str, outcome: str) -> None:
        self._metrics.handled.labels(self._type(agent), outcome).inc()

    def _model(self, event: ModelAsked) -> None:
        agent = self._names.label("type", event.agent)
        model = self._names.label("model", event.model)
        self._metrics.model_requests.labels(agent, model, event.status).inc()
        self._metrics.model_seconds.labels(model).observe(event.seconds)
        counted = {
            "input": event.prompt,
            "output": event.completion,
            "cached": event.cached,
            "reasoning": event.reasoning,
        }
        for kind, tokens in counted.items():
            if tokens:
                self._metrics.model_tokens.labels(agent, model, kind).inc(tokens)

    def _type(self, agent: str) -> str:
        return self._names.label("type", agent.partition("/")[0])


class _WorkerTable(NamedTuple):
    """The metrics of a worker."""

    handled: Any
    handling: Any
    waited: Any
    running: Any
    held: Any
    connected: Any
    reconnects: Any
    fenced: Any
    published: Any
    model_requests: Any
    model_tokens: Any
    model_seconds: Any
    tool_calls: Any
    tool_seconds: Any

    @classmethod
    def made(cls, registry: CollectorRegistry, namespace: str) -> _WorkerTable:
        from prometheus_client import Counter, Gauge, Histogram

        make = _Maker(registry, namespace)
        return cls(
            handled=make(Counter, "handled", "Deliveries that ended, by how.", "type", "outcome"),
            handling=make(
                Histogram, "handling_seconds", "From the start of a handler to its commit.", "type"
            ),
            waited=make(Histogram, "waited_seconds", "From publishing to the start of the handler.", "type"),
            running=make(Gauge, "running", "Handlers that run, as of the last heartbeat."),
            held=make(Gauge, "held", "Messages that this worker holds, as of the last heartbeat."),
            connected=make(Gauge, "connected", "1 while the connection to the server stands."),
            reconnects=make(Counter, "reconnects", "Connections that were made anew."),
            fenced=make(Counter, "fenced", "Leases that this worker lost."),
            published=make(Counter, "published", "Messages that this process sent, by where to.", "kind"),
            model_requests=make(
                Counter, "model_requests", "Requests to models that ended.", "agent", "model", "status"
            ),
            model_tokens=make(
                Counter, "model_tokens", "Tokens, as models' servers count.", "agent", "model", "kind"
            ),
            model_seconds=make(Histogram, "model_seconds", "How long a request to a model took.", "model"),
            tool_calls=make(Counter, "tool_calls", "Calls of tools that ended.", "tool", "status"),
            tool_seconds=make(Histogram, "tool_seconds", "How long a call of a tool took.", "tool"),
        )


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes metrics whose first label is the namespace."""

    registry: CollectorRegistry
    namespace: str

    def __call__(self, kind: type[Any], name: str, text: str, *labels: str) -> Any:
        from prometheus_client import Histogram

        more: dict[str, Any] = {"buckets": SECONDS} if kind is Histogram else {}
        made = kind(f"callboard_{name}", text, ("namespace", *labels), registry=self.registry, **more)
        return _Labelled(made, self.namespace) if labels else made.labels(self.namespace)


@dataclass(frozen=True, slots=True)
class _Labelled:
    """A metric with labels beside the namespace."""

    metric: Any
    namespace: str

    def labels(self, *values: str) -> Any:
        return self.metric.labels(self.namespace, *values)


class Look(NamedTuple):
    """What one look at a namespace has found.

    Attributes:
        view: Its types and workers.
        questions: How many questions to people are open.
        question_at: When the oldest of them was asked, server ms; None: there is none.
        seconds: How long the look took.
    """

    view: PulseView
    questions: int
    question_at: int | None
    seconds: float


class NamespaceMetrics:
    """What waits in a namespace, as a scrape: made of a look that the server bounds.

    Args:
        namespace: A label of every metric.

    Attributes:
        registry: All its metrics, of the view that was set last.

    Raises:
        MissingPackageError: prometheus-client is not installed (an ImportError).
    """

    def __init__(self, namespace: str) -> None:
        self.registry = _registry()
        self._namespace = namespace
        self._look: Look | None = None
        self.registry.register(self)

    def seen(self, look: Look) -> None:
        """Take what a look has found."""
        self._look = look

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before the first look; the registry asks when this is registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """The metrics; called by the registry."""
        if self._look is None:
            return
        view = self._look.view
        types = sorted(view.types, key=lambda one: one.type)[: MOST["type"]]
        by_type: dict[str, tuple[str, dict[str, float | None]]] = {
            "waiting": ("Messages that are due and wait.", {one.type: one.waiting for one in types}),
            "handlers_running": ("Messages that handlers run.", {one.type: one.running for one in types}),
            "suspended": ("Handlers that wait for an answer.", {one.type: one.asking for one in types}),
            "dead_letters": ("Dead letters that are there.", {one.type: one.dead for one in types}),
        }
        for name, (text, values) in by_type.items():
            yield self._family("gauge", name, text, values)
        done = {one.type: one.done for one in types}
        yield self._family("counter", "done", "Messages that were handled, ever.", done)
        died = {one.type: one.died for one in types}
        yield self._family("counter", "died", "Dead letters that were written, ever.", died)
        workers = sum(1 for one in view.workers if one.lease_ms_left >= 0)
        questions = self._look.questions
        oldest = (
            0.0 if self._look.question_at is None else max(0.0, (view.at - self._look.question_at) / 1000)
        )
        for name, text, value in (
            ("workers", "Workers whose lease stands.", workers),
            ("questions_open", "Questions to people that are open.", questions),
            ("question_oldest_seconds", "How long the oldest open question has waited; 0: none is.", oldest),
            ("look_seconds", "How long the look took.", self._look.seconds),
        ):
            yield self._family("gauge", name, text, {"": value})

    def _family(self, kind: str, name: str, text: str, values: Mapping[str, float | None]) -> Metric:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        make = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
        has_types = set(values) != {""}
        labels = ["namespace", "type"] if has_types else ["namespace"]
        family = make(f"callboard_{name}", text, labels=labels)
        for agent_type, value in values.items():
            if value is not None:  # the server does not know it
                family.add_metric([self._namespace, agent_type][: len(labels)], value)
        return family


def _registry() -> CollectorRegistry:
    try:
        from prometheus_client import CollectorRegistry
    except ModuleNotFoundError:
        raise MissingPackageError("prometheus_client", "metrics") from None
    return CollectorRegistry()


def scrape(registry: CollectorRegistry) -> bytes:
    """All metrics of a registry in Prometheus' text format."""
    from prometheus_client import generate_latest

    return generate_latest(registry)


class Answer(NamedTuple):
    """An answer to a scraper or a probe."""

    status: int
    kind: str
    body: bytes


def said(status: int, word: str, **facts: Any) -> Answer:
    """An answer to a probe: its status, and JSON with a word for it."""
    return Answer(status, "application/json", json.dumps({"status": word, **facts}).encode() + b"\n")


Routes = Mapping[str, Callable[[], Answer]]


def address_of(text: str) -> tuple[str, int]:
    """Address and port of `PORT` or `ADDRESS:PORT`, such as `9464`, `0.0.0.0:9464` or `[::]:9464`; 0: a free port.

    Raises:
        SettingsError: It is something else.
    """
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 65536):
        raise SettingsError(
            f"{text!r} is no place for metrics: write a port, or ADDRESS:PORT, such as 0.0.0.0:9464"
        )
    return host.strip("[]") or "127.0.0.1", int(port)


class MetricsServer:
    """A small HTTP server in a thread of its own, so that it answers while the event loop is blocked.

    Args:
        host: The address that it listens at.
        port: The port; 0: a free one.
        routes: Path -> what answers it, in a thread; it may take some seconds.

    Attributes:
        port: The port that it listens at.

    Raises:
        MetricsError: The port is taken, or the address is not one of this machine.
    """

    def __init__(self, host: str, port: int, routes: Routes) -> None:
        try:
            self._server = _server_of(host)((host, port), _handler(routes))
        except OSError as error:
            raise MetricsError(f"{host}:{port}", f"{error.strerror or error}; choose another port") from None
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._host = host
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="callboard-metrics", daemon=True
        )

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{f'[{self._host}]' if ':' in self._host else self._host}:{self.port}"

    def __enter__(self) -> Self:
        """Begin to answer."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()


def _server_of(host: str) -> type[ThreadingHTTPServer]:
    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    return Server


def _handler(routes: Routes) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # seconds for a scraper that says nothing
        server_version = "callboard"
        sys_version = ""

        def do_GET(self) -> None:
            route = routes.get(self.path.partition("?")[0])
            answer = Answer(404, TEXT, b"there are " + ", ".join(routes).encode() + b"\n")
            if route is not None:
                answer = route()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: Any) -> None:
            """Scrapes are no news."""

    return Handler


def answers_in_time(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether an event loop carries something out within LOOP_PATIENCE; called in another thread."""
    answered = threading.Event()
    try:
        loop.call_soon_threadsafe(answered.set)
    except RuntimeError:  # it is closed
        return False
    return answered.wait(LOOP_PATIENCE)


def worker_routes(metrics: WorkerMetrics, loop: asyncio.AbstractEventLoop, lease: float) -> Routes:
    """The pages of a worker.

    Args:
        metrics: What is counted.
        loop: Where its handlers run.
        lease: Seconds after which a worker that the server has not heard has lost its messages.
    """

    def alive() -> Answer:
        if answers_in_time(loop):
            return said(200, "alive")
        return said(503, "blocked", detail=f"the event loop did not answer within {LOOP_PATIENCE:g} s")

    def ready() -> Answer:
        since = time.monotonic() - metrics.beaten
        if metrics.beaten and since < lease:
            return said(200, "ready", last_beat=round(since, 1))
        return said(503, "not ready", detail="the server has not answered a heartbeat within the lease")

    return {
        "/metrics": lambda: Answer(200, TEXT, scrape(metrics.registry)),
        "/healthz": alive,
        "/readyz": ready,
    }
