"""A runtime from open to close: its connection, the worker of this process, and the watch over its event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from callboard.broker import BrokerSettings, MessageRegistry, SubscriptionTable
from callboard.broker.consumer import Consumer
from callboard.broker.envelope import Delivery
from callboard.broker.errors import ServerUnavailableError
from callboard.broker.mailbox import ConsumedType, Turn
from callboard.broker.redis.client.heartbeat import HangPolicy, Keeper, Pulse
from callboard.broker.redis.client.transport import Declared, RedisTransport, ThrowAway
from callboard.broker.retry import RetryPolicy
from callboard.broker.settings import variable, warn_of_unknown
from callboard.broker.subscriptions import Subscription, TypePrefixSubscription, TypeSubscription
from callboard.core.declaration import Schedule
from callboard.core.intervention import InterventionHandler
from callboard.foundation.texts import is_ours, is_users, one_line

from .agents import LocalAgents
from .errors import RuntimeStateError, register_errors
from .execution import Executions
from .host import AgentHost
from .scheduler import Scheduler, kept_up
from .sending import Audience, Sender

if TYPE_CHECKING:
    from callboard.broker.redis.embedded import ServerHandle


class Reading(Protocol):
    """What reads along in this process, as long as the runtime is open."""

    def end(self) -> None:
        """Ends the reading."""


class RuntimeLifecycle:
    """The part of a runtime that has nothing to do with single agents and messages.

    Args:
        agents: the agents of this process.
        url, namespace, settings, types, intervention_handlers, ignore_unhandled_exceptions, retry, exit_when_stuck: see
            RedisAgentRuntime.
    """

    def __init__(
        self,
        agents: LocalAgents,
        url: str | None,
        *,
        namespace: str | None,
        settings: BrokerSettings | None,
        types: Collection[str] | None,
        intervention_handlers: Sequence[InterventionHandler] | None,
        ignore_unhandled_exceptions: bool,
        retry: RetryPolicy | None,
        exit_when_stuck: bool,
    ) -> None:
        register_errors()
        self.registry = MessageRegistry()
        self._agents = agents
        self._subscriptions = SubscriptionTable()
        self._given_url = url
        self._given_namespace = namespace
        self._given_settings = settings
        self._given_retry = retry
        self._only = None if types is None else frozenset(types)
        self._elsewhere: frozenset[str] = frozenset()
        self._interventions = tuple(intervention_handlers or ())
        self._ignore_errors = ignore_unhandled_exceptions
        self._exit_when_stuck = exit_when_stuck
        self._transport: RedisTransport | None = None
        self._server: ServerHandle | None = None
        self._followings: weakref.WeakSet[Reading] = weakref.WeakSet()
        self._sender: Sender | None = None
        self._worker: LocalWorker | None = None
        self._task: asyncio.Task[None] | None = None
        self._opening: asyncio.Lock | None = None
        self._app_name = ""
        self._schedules: Mapping[str, Schedule] = {}
        self._temporary = False
        self._throw_away: ThrowAway | None = None
        # In a test: makes, when it is first asked, a folder for what agents would keep beside the server.
        self.scratch: Callable[[], Path] | None = None

    @property
    def transport(self) -> RedisTransport:
        """The connection to the server.

        Raises:
            RuntimeStateError: `open` was not called.
        """
        if self._transport is None:
            raise RuntimeStateError("the runtime is not connected: await open() or start() first")
        return self._transport

    @property
    def settings(self) -> BrokerSettings:
        """The settings in force; known once the runtime is open."""
        return self.transport.settings

    @property
    def worker(self) -> str:
        """Name of the worker in this process, "" when it is not running."""
        return self._worker.consumer.worker if self._worker is not None else ""

    @property
    def handled(self) -> int:
        """Messages that were handled here since `start`."""
        return self._worker.host.handled if self._worker is not None else 0

    @property
    def failed(self) -> int:
        """Messages whose handling failed for good here since `start`."""
        return self._worker.host.failed if self._worker is not None else 0

    # Opening and closing

    async def open(self) -> None:
        """Connects and declares, without working yet. Safe to repeat; every other call does it when needed.

        Raises:
            ServerUnavailableError: no server answers at the URL.
            ServerNotFoundError: no URL is given and no server binary is installed.
            BadUrlError, SettingsError: what was given can't be used.
        """
        if self._transport is not None:
            return
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            # Asked again: of two callers that found no transport, the second gets here when the first has opened. It would
            # replace that transport by its own, and nothing would close the first one's connections.
            if self._transport is None:
                await self._open()

    async def _open(self) -> None:
        warn_of_unknown()
        settings = self._given_settings or BrokerSettings.from_env()
        namespace = self._given_namespace or settings.namespace or variable("namespace")
        # Only what was made up here is removed in the end. That a name is the usual one says nothing: it may be given, too.
        # guard: a namespace that was given is never deleted
        self._temporary = namespace is None
        settings = replace(settings, namespace=namespace or f"run-{os.getpid()}-{os.urandom(4).hex()}")
        url = self._given_url or settings.url or variable("url")
        if url is None:
            from callboard.broker.redis.embedded import EmbeddedServer

            self._server = await EmbeddedServer.acquire()
            url = self._server.url
        transport = RedisTransport(url, settings, self._revive if self._server is not None else None)
        try:
            # Registered before its first key is written: whatever kills this process, a later one finds what it left.
            if self._temporary:
                self._throw_away = ThrowAway(transport)
                await self._throw_away.begin()
            await self._declare(transport)
        except BaseException:
            if self._throw_away is not None:
                await self._throw_away.stop()
            await transport.close()
            await self._release_server()
            raise
        self._transport = transport
        audience = Audience(transport, self._subscriptions, self._agents)
        self._sender = Sender(transport, self.registry, self._interventions, audience)

    def _retry(self, settings: BrokerSettings) -> RetryPolicy:
        """When a failed message is tried again, unless its agent type says something else."""
        return self._given_retry or RetryPolicy.of(settings)

    async def _declare(self, transport: RedisTransport) -> None:
        types = self._agents.settings_of_types(self._retry(transport.settings))
        subscriptions = [declared(subscription) for subscription in self._subscriptions]
        await transport.declare(types, subscriptions, self.registry.versions())

    async def _transport_if_any(self) -> RedisTransport | None:
        """The connection, for something that comes now and is to be known there; None: opening will declare it.

        An opening that is under way has said already what it declares: it comes after that.
        """
        if self._transport is None and self._opening is not None:
            # guard: what is registered while the runtime opens is declared
            async with self._opening:
                pass
        return self._transport

    async def close(self) -> None:
        """Stops, closes the agents, ends every connection. A throw-away namespace is deleted. Safe to repeat."""
        async with (
            contextlib.AsyncExitStack() as ending
        ):  # from the last to the first, although one of them fails
            ending.push_async_callback(self._release_server)
            ending.push_async_callback(self._close_transport)
            ending.push_async_callback(self._agents.close)
            ending.push_async_callback(self.drain)

    async def _close_transport(self) -> None:
        if self._transport is not None:
            # Taken before the await: a second `close` that comes meanwhile finds nothing left to close.
            transport, self._transport = self._transport, None
            for following in list(self._followings):
                following.end()
            if self._sender is not None:
                self._sender.deadlines.close()
                await self._sender.audience.close()
            await transport.close(last=None if self._throw_away is None else self._throw_away.end)

    async def _revive(self) -> None:
        """Starts the embedded server again when it died; its file brings everything back."""
        if self._server is None:
            return
        from callboard.broker.redis.embedded import ServerStartError

        try:
            await self._server.ensure_running()
        except ServerStartError as error:
            raise ServerUnavailableError(self._server.url, str(error)) from error

    async def _release_server(self) -> None:
        if self._server is not None:
            # Taken before the await: two calls of `close` must give the server back once, not twice.
            server, self._server = self._server, None
            await server.release()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Working

    def start(self) -> None:
        """Begins to handle messages, in a task of this event loop. An ordinary call, as in AutoGen.

        Raises:
            RuntimeStateError: it is running.
        """
        if self._task is not None:
            raise RuntimeStateError("the runtime is already started")
        self._worker = None
        self._task = asyncio.create_task(self._work(), name="callboard-worker")

    async def _work(self) -> None:
        await self.open()
        transport, sender = self.transport, await self._open_sender()
        self._worker = LocalWorker(
            self._agents,
            Executions(transport, self.registry, sender.tokens.of),
            self._consumed_types(),
            self._retry(transport.settings),
            declare=lambda: self._declare(transport),
            is_sending=self._is_sending,
            exit_when_stuck=self._exit_when_stuck,
            cancelled=self._hear_cancelled,
        )
        async with kept_up(self._scheduler(transport)):
            await self._worker.run()

    def _scheduler(self, transport: RedisTransport) -> Scheduler | None:
        """Looks to the schedules of the app; who only sends leaves that to those who work."""
        if not self._app_name or not self._consumed_types():
            return None
        return Scheduler(transport, self.registry, self._app_name, self._schedules)

    def _hear_cancelled(self, what: str) -> None:
        """Something was cancelled, here or in another process: for what a subclass has to cancel besides requests."""

    def _consumed_types(self) -> list[ConsumedType]:
        return [
            ConsumedType(kind.type, kind.persistent, kind.settings.concurrency, kind.settings.rate_limit)
            for kind in self._agents
            if (self._only is None or kind.type in self._only) and kind.type not in self._elsewhere
        ]

    def _is_sending(self) -> bool:
        return self._sender is not None and self._sender.entering > 0

    def _started(self) -> asyncio.Task[None]:
        if self._task is None:
            raise RuntimeStateError("the runtime is not started: call start() first")
        return self._task

    async def ready(self) -> None:
        """Waits until the worker of this process takes messages; raises what keeps it from that, or has ended it since."""
        task = self._started()
        while not task.done():
            if self._worker is not None and self._worker.consumer.joined.is_set():
                return
            await asyncio.sleep(0.001)
        if self._task is task:
            self._task = None  # the caller is told below how it ended, and may start again
        await task

    async def drain(self, grace: float | None = None) -> None:
        """Stops as SIGTERM does: takes nothing new, lets handlers finish, gives back the rest.

        Args:
            grace: seconds that running handlers get; None: `drain_grace` of the settings. What runs longer is
                cancelled and goes to other workers without counting an attempt. A second call may shorten it.
        """
        task = self._task
        if task is None:
            return
        if self._worker is None:
            task.cancel()
            await asyncio.wait({task})
        else:
            await self._worker.drain(task, self.settings.drain_grace if grace is None else grace)
        if self._task is not task:
            return  # a call with less patience was here first, and told its caller how it ended
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def stop(self) -> None:
        """Lets running handlers finish and stops. What is queued stays in Redis, for the next start or another process.

        Raises:
            RuntimeStateError: it is not running.
        """
        self._started()
        await self._stop()

    async def stop_when_idle(self) -> None:
        """Stops when nothing is left to do in the whole namespace: nothing queued, running, or due.

        A message that was sent before this call is always waited for.
        """
        task = self._started()
        await self.ready()
        if self._worker is not None:
            await self._worker.until_idle(task, self._has_failed)
        await self._stop()

    async def until_idle(self) -> None:
        """Waits until nothing is left to do in the whole namespace, seen twice, whoever does it; it stops nothing.

        A message that was sent before this call is always waited for. Where no process runs an agent type, what waits for it
        is waited for as well.
        """
        await self.open()
        if self._task is not None:
            await self.ready()
        await until_idle(self.transport, self._worker, self._task)

    async def stop_when(self, condition: Callable[[], bool]) -> None:
        """Stops as soon as `condition()` is true; it is asked after every change."""
        task = self._started()
        await self.ready()
        if self._worker is not None:
            await self._worker.until(lambda: condition() or self._has_failed(), task)
        await self._stop()

    async def _stop(self) -> None:
        await self.drain()
        if self._has_failed() and self._worker is not None:
            error, self._worker.host.first_error = self._worker.host.first_error, None
            if error is not None:
                raise error

    def _has_failed(self) -> bool:
        return (
            not self._ignore_errors and self._worker is not None and self._worker.host.first_error is not None
        )

    async def _open_sender(self) -> Sender:
        """Connects when that has not been done."""
        await self.open()
        if self._sender is None:
            raise RuntimeStateError("the runtime is not connected: await open() or start() first")
        return self._sender


def declared(subscription: Subscription) -> Declared:
    """A subscription as the server keeps it.

    Raises:
        TypeError: it is of a kind that only this process could know.
    """
    if isinstance(subscription, TypeSubscription):
        return Declared(subscription.agent_type, "topic", subscription.topic_type)
    if isinstance(subscription, TypePrefixSubscription):
        return Declared(subscription.agent_type, "prefix", subscription.topic_type_prefix)
    raise TypeError(
        f"{type(subscription).__name__} can't cross processes: use TypeSubscription or TypePrefixSubscription"
    )


logger = logging.getLogger("callboard.actors")

STUCK_AFTER = 2.0  # seconds past max_runtime after which a handler counts as one that blocks the loop
STUCK = 75  # exit status of a worker that ended itself (EX_TEMPFAIL)
FIRST_LOOK, LONGEST_LOOK = 0.001, 0.1  # seconds between two looks at whether everything is idle
Look = tuple[int, int, int, bytes]


def concerned_by(target: str) -> Callable[[Delivery], bool]:
    """Which entries an order is about: `type <type>`, `key <type>/<key>` or `topic <topic>`."""
    kind, _, name = target.partition(" ")
    if kind == "topic":
        stream = f"topic:{name}".encode()
        return lambda delivery: delivery.stream == stream
    agent_type, _, key = name.partition("/")
    raw_type, raw_key = agent_type.encode(), key.encode()
    if kind == "type":
        return lambda delivery: delivery.raw_type == raw_type
    return lambda delivery: delivery.raw_type == raw_type and delivery.raw_key == raw_key


class LocalWorker:
    """One run of the worker, from start to drain.

    Args:
        agents: the agents of this process.
        executions: reads messages and runs handlers.
        types: the agent types to work for.
        retry: when a failed message is tried again, unless its agent type says something else.
        declare: makes agent types and subscriptions known to the server.
        is_sending: whether something is on its way to the server.
        exit_when_stuck: end the process when a handler blocks the event loop long after its `max_runtime`.
        cancelled: called with whatever is cancelled, in any process, besides the requests that are handled here.
    """

    def __init__(
        self,
        agents: LocalAgents,
        executions: Executions,
        types: Iterable[ConsumedType],
        retry: RetryPolicy,
        *,
        declare: Callable[[], Coroutine[Any, Any, None]],
        is_sending: Callable[[], bool],
        exit_when_stuck: bool = False,
        cancelled: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._cancelled = cancelled
        self._transport = executions.transport
        self._is_sending = is_sending
        self._exit_when_stuck = exit_when_stuck
        self._complained = False
        self._keeper: Keeper | None = None
        self._introduced = ""
        self._changed = asyncio.Event()
        self.host = AgentHost(agents, executions, retry, declare=declare, on_turn=self._on_turn)
        self.consumer = Consumer(self._transport.lane(), types, self.host, self._transport.settings)
        self._loop = asyncio.get_running_loop()
        self._watch = LoopWatch(self._loop, self._who)

    async def run(self) -> None:
        """Works until drained."""
        keeper = self._keeper = self._transport.keeper(HangPolicy(self._exit_when_stuck, STUCK_AFTER))
        if keeper is not None:
            self.host.limits.board = keeper.board
            keeper.start()
        heartbeat = self._transport.heartbeat(self._pulse, self._on_fenced, keeper)
        heartbeat.start()
        passivating = asyncio.create_task(self._passivate(), name="callboard-passivate")
        orders = self._transport.follow_control(self._obey)
        try:
            # Before the first turn: an order that is given after this worker took a delivery comes after the place that
            # is remembered here, so it is read. Older orders are about deliveries that this worker never had.
            await orders.skip_to_end()
            orders.start()
            await self.consumer.run()
        finally:
            await orders.close()
            passivating.cancel()
            await asyncio.wait({passivating})
            await heartbeat.end()

    def _pulse(self) -> Pulse:
        """Called in the heartbeat's thread."""
        overdue = self.host.limits.overdue()
        if overdue < STUCK_AFTER:
            self._complained = False
        elif self._exit_when_stuck:
            logger.critical("a handler blocks the event loop past its max_runtime: this worker ends itself")
            os._exit(STUCK)
        elif not self._complained:
            self._complained = True
            logger.error("a handler blocks the event loop past its max_runtime and can't be cancelled")
        blocked = self._watch.look()
        # guard: a worker that is cut off lets its lease end
        if self.consumer.is_cut_off:
            return Pulse("", 0, 0, 0)
        runs = self.consumer.running_by_type()
        by_type = " ".join(f"{name} {number}" for name, number in runs.items())
        held, running = self.consumer.held, sum(runs.values())
        return Pulse(*self.consumer.incarnation, held=held, running=running, runs=by_type, blocked=blocked)

    def _who(self, task: asyncio.Task[object]) -> str:
        """Called in the heartbeat's thread, while `task` blocks the loop."""
        delivery = self.consumer.handled_in(task)
        if delivery is None:
            return ""
        agent_type = delivery.raw_type.decode(errors="replace")
        return f"{agent_type}/{delivery.envelope.key} handles {delivery.envelope.type}"

    def _obey(self, order: str, what: str) -> None:
        if order == "cancel":
            self.host.cancel(what)
            self._cancelled(what)
        elif order in ("pause", "make way"):
            self.consumer.step_back(concerned_by(what))
        elif order == "interrupt":
            self.consumer.interrupt(concerned_by(what))

    def _on_turn(self, turn: Turn) -> None:
        self.host.now = self._loop.time()
        if turn.server_ms:
            self._transport.observe_clock(turn.server_ms, turn.asked_ms)
        self._changed.set()
        # Before the first handler of this incarnation runs: it may be the one that holds the lock.
        if self._introduced != self.consumer.worker:
            self._introduced = self.consumer.worker
            if self._keeper is not None:
                self._keeper.introduce(self._introduced)

    def _on_fenced(self, worker: str) -> None:
        """Called in the heartbeat's thread."""
        # The answer to a beat may be about an earlier incarnation: the loop may have noticed the lost lease by itself and
        # joined under a new name since the beat was sent.
        if self.consumer.worker == worker:
            self._loop.call_soon_threadsafe(self.consumer.nudge)

    async def _passivate(self) -> None:
        settings = self._transport.settings
        pause = max(0.05, settings.passivate_after / 4)
        while True:
            self.host.now = self._loop.time()
            await asyncio.sleep(pause)
            # What was used may have been used by a pause later than its agent says, where there was no turn.
            before = self._loop.time() - settings.passivate_after - pause
            await self.host.agents.passivate(before, settings.max_idle_agents, self.consumer.holds)

    async def drain(self, task: asyncio.Task[None], grace: float) -> None:
        """Ends `task`, which runs this worker: what runs longer than `grace` seconds goes to other workers."""
        self.consumer.drain()
        await asyncio.wait({task}, timeout=grace)
        if not task.done():
            self.consumer.give_up()
            await asyncio.wait({task})

    # Waiting

    async def until(self, condition: Callable[[], bool], task: asyncio.Task[None]) -> None:
        """Waits until a condition holds, or the worker ended; it is asked after every turn."""
        while not condition() and not task.done():
            await self._next_change(0.02)

    async def until_idle(self, task: asyncio.Task[None], stop: Callable[[], bool]) -> None:
        """Waits until nothing is left to do in the namespace, seen twice without a message in between."""
        pause = FIRST_LOOK
        last: Look | None = None
        while not task.done() and not stop():
            look = await self._transport.idle() if self._is_quiet() else None
            if look is None or any(look[:3]):
                last = None
                await self._next_change(pause)
                pause = min(pause * 2, LONGEST_LOOK)
            elif look == last and self._is_quiet():
                # Quiet is asked again: while the server answered, code of this process may have begun to send a message,
                # which is neither in the server's numbers yet nor among those that were asked before.
                return
            else:
                last = look

    def _is_quiet(self) -> bool:
        return self.consumer.is_idle and not self._transport.in_flight and not self._is_sending()

    async def _next_change(self, at_most: float) -> None:
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most):
                await self._changed.wait()


FIRST_IDLE_LOOK: Final = 0.001  # seconds between two looks; twice as long each time
LONGEST_IDLE_LOOK: Final = 0.1


async def until_idle(
    transport: RedisTransport, worker: LocalWorker | None, task: asyncio.Task[None] | None
) -> None:
    """Waits until nothing is left to do in the namespace, seen twice without a message in between.

    Args:
        transport: the connection.
        worker: the worker of this process; None: there is none.
        task: runs it. When it was cut off, this raises why.
    """
    if worker is None or task is None:
        await _elsewhere(transport)
        return
    await worker.until_idle(task, lambda: False)
    if task.done():
        await task


async def _elsewhere(transport: RedisTransport) -> None:
    """As above, where other processes do the work.

    A commit takes its message away and adds what follows in one step, so there is no moment at which work is neither
    queued nor held; the second look is for what was published while the first one went from stream to stream.
    """
    pause, last = FIRST_IDLE_LOOK, None
    while True:
        look = await transport.idle()
        if any(look[:3]):
            last = None
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_IDLE_LOOK)
        elif look == last and not transport.in_flight:
            return
        else:
            last = look


BLOCKED_AFTER = 0.5  # seconds that the loop may need to answer
TELL_AGAIN = 60.0  # seconds after which the same line of code is complained about again
MOST_TOLD = 100  # lines of code that are remembered for that


class LoopWatch:
    """Asks the loop for a sign of life with each look, and says what it does when it gives none.

    Args:
        loop: The loop, in whose thread this is made.
        who: The message that a task handles, as `counter/ada handles Visit`; "" for none.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, who: Callable[[asyncio.Task[object]], str]) -> None:
        self._loop = loop
        self._who = who
        self._thread = threading.get_ident()
        self._asked_at = 0.0
        self._is_asked = False
        self._told: dict[str, float] = {}

    def look(self) -> str:
        """One look, in another thread than the loop's.

        Returns:
            "", or while the loop is blocked for how many seconds, a space, and by what.
        """
        now = monotonic()
        if not self._is_asked:
            self._is_asked, self._asked_at = True, now
            self._loop.call_soon_threadsafe(self._answer)
            return ""
        seconds = now - self._asked_at
        if seconds < BLOCKED_AFTER:
            return ""
        what = self._describe()
        self._tell(what, seconds, now)
        return f"{seconds:.1f} {what}"

    def _answer(self) -> None:
        self._is_asked = False

    def _describe(self) -> str:
        task = asyncio.current_task(self._loop)
        who = self._who(task) if task is not None else ""
        where = handler_line(sys._current_frames().get(self._thread))
        return ", ".join(filter(None, (who, where))) or "something that is no handler"

    def _tell(self, what: str, seconds: float, now: float) -> None:
        if now < self._told.get(what, 0.0) or len(self._told) > MOST_TOLD:
            return
        self._told[what] = now + TELL_AGAIN
        logger.warning(
            "the event loop has stood still for %.1f s: %s. Nothing else runs in this process meanwhile: "
            "have what blocks run in a thread, with `await asyncio.to_thread(...)`",
            seconds,
            one_line(what),
        )


def handler_line(frame: FrameType | None) -> str:
    """Where a thread is, as `line 12 of app.py`: the outermost line of the user's code that our own code has called."""
    frames: list[FrameType] = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    is_inside = False
    for each in reversed(frames):
        file = each.f_code.co_filename
        if is_ours(file):
            is_inside = True
        # What is installed is no handler: the command line calls all of this through a package of others.
        elif is_inside and is_users(file):
            return f"line {each.f_lineno} of {Path(file).name}"
    return ""
