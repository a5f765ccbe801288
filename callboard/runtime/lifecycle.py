"""A runtime from open to close: its connection, the worker of this process, and the watch over its event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any

from callboard.broker import AgentId, BrokerSettings
from callboard.broker.consumer import Consumer
from callboard.broker.envelope import Delivery
from callboard.broker.errors import ServerUnavailableError
from callboard.broker.mailbox import ConsumedType, Turn
from callboard.broker.redis.client.heartbeat import HangPolicy, Keeper, Pulse
from callboard.broker.redis.client.transport import RedisTransport, ThrowAway
from callboard.broker.retry import RetryPolicy
from callboard.broker.settings import variable, warn_of_unknown
from callboard.core.intervention import InterventionHandler
from callboard.errors import MisuseError
from callboard.foundation.texts import is_ours, is_users, one_line

from .agents import LocalAgents, LocalTypes
from .execution import Executions
from .host import AgentHost
from .scheduler import Scheduler, kept_up
from .sending import Audience, Sender

if TYPE_CHECKING:
    from callboard.broker.redis.embedded import ServerHandle

    from .run_history import RunEvents
    from .topic_reader import Following

logger = logging.getLogger("callboard.actors")


class RuntimeConnection:
    """The connection of a runtime, from open to close: its server, its namespace, and what sends and reads by it.

    Args:
        local: what is declared to the server as soon as it is open.
        url, namespace, settings, interventions: see RedisAgentRuntime.

    Attributes:
        transport: the connection to the server; None: it is not open.
        sender: sends by it; None: it was never open.
        readers: what reads along in this process, as long as it is open.
        scratch: makes a folder for what agents keep beside the server, in a test; None: it is no test.
    """

    def __init__(
        self,
        local: LocalTypes,
        url: str | None,
        namespace: str | None,
        settings: BrokerSettings | None,
        interventions: Sequence[InterventionHandler],
    ) -> None:
        self.local = local
        self.transport: RedisTransport | None = None
        self.sender: Sender | None = None
        self.readers: weakref.WeakSet[RunEvents | Following] = weakref.WeakSet()
        self._given_url = url
        self._given_namespace = namespace
        self._given_settings = settings
        self._interventions = tuple(interventions)
        self._server: ServerHandle | None = None
        self._opening: asyncio.Lock | None = None
        self._throw_away: ThrowAway | None = None
        self.scratch: Callable[[], Path] | None = None

    async def open(self) -> None:
        """Connects and declares; see RedisAgentRuntime.open."""
        if self.transport is not None:
            return
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            # Asked again: of two callers that found no transport, the second gets here when the first has opened. It would
            # replace that transport by its own, and nothing would close the first one's connections.
            if self.transport is None:
                await self._open()

    async def _open(self) -> None:
        warn_of_unknown()
        settings = self._given_settings or BrokerSettings.from_env()
        namespace = self._given_namespace or settings.namespace or variable("namespace")
        # Only what was made up here is removed in the end. That a name is the usual one says nothing: it may be given, too.
        # guard: a namespace that was given is never deleted
        is_temporary = namespace is None
        settings = replace(settings, namespace=namespace or f"run-{os.getpid()}-{os.urandom(4).hex()}")
        url = self._given_url or settings.url or variable("url")
        if url is None:
            from callboard.broker.redis.embedded import EmbeddedServer

            self._server = await EmbeddedServer.acquire()
            url = self._server.url
        transport = RedisTransport(url, settings, self._revive if self._server is not None else None)
        try:
            # Registered before its first key is written: whatever kills this process, a later one finds what it left.
            if is_temporary:
                self._throw_away = ThrowAway(transport)
                await self._throw_away.begin()
            await self.local.declare(transport)
        except BaseException:
            if self._throw_away is not None:
                await self._throw_away.stop()
            await transport.close()
            await self.release_server()
            raise
        self.transport = transport
        audience = Audience(transport, self.local.subscriptions, self.local.agents)
        self.sender = Sender(transport, self.local.registry, self._interventions, audience)

    def required(self) -> RedisTransport:
        """The connection to the server.

        Raises:
            MisuseError: `open` was not called.
        """
        if self.transport is None:
            raise MisuseError("the runtime is not connected: await open() or start() first")
        return self.transport

    async def connected(self) -> RedisTransport:
        """The connection to the server, opened when that has not been done."""
        await self.open()
        return self.required()

    async def open_sender(self) -> Sender:
        """The sender, after connecting when that has not been done."""
        await self.open()
        if self.sender is None:
            raise MisuseError("the runtime is not connected: await open() or start() first")
        return self.sender

    async def if_any(self) -> RedisTransport | None:
        """The connection, for something that comes now and is to be known there; None: opening will declare it.

        An opening that is under way has said already what it declares: it comes after that.
        """
        if self.transport is None and self._opening is not None:
            # guard: what is registered while the runtime opens is declared
            async with self._opening:
                pass
        return self.transport

    async def knows(self, agent_type: str) -> bool:
        """Whether an agent type is declared in the namespace, by whatever process; False where it is not open."""
        transport = await self.if_any()
        if transport is None:
            return False
        return bool(await transport.admin.command("HEXISTS", transport.keys.of("types"), agent_type))

    async def close(self) -> None:
        """Ends the connection and all that reads by it; a throw-away namespace is deleted. Safe to repeat."""
        if self.transport is not None:
            # Taken before the await: a second `close` that comes meanwhile finds nothing left to close.
            transport, self.transport = self.transport, None
            for reader in list(self.readers):
                reader.end()
            if self.sender is not None:
                self.sender.deadlines.close()
                await self.sender.audience.close()
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

    async def release_server(self) -> None:
        """Gives the embedded server back, if this one uses it."""
        if self._server is not None:
            # Taken before the await: two calls of `close` must give the server back once, not twice.
            server, self._server = self._server, None
            await server.release()


class Work:
    """The work of a process, from start to stop: its worker, and the task that runs it.

    Args:
        connection: opened by the task.
        ignores_failures: False: an event that failed for good is raised where the work is stopped.
        exit_when_stuck: see LocalWorker.

    Attributes:
        worker: the worker; None: it was not started, or is not connected yet.
        task: runs it; None: it is not running.
        cancelled: called with whatever is cancelled, in any process, besides the requests that are handled here.
    """

    def __init__(
        self, connection: RuntimeConnection, *, ignores_failures: bool, exit_when_stuck: bool
    ) -> None:
        self.worker: LocalWorker | None = None
        self.task: asyncio.Task[None] | None = None
        self.cancelled: Callable[[str], None] = lambda _: None
        self._connection = connection
        self._ignores_failures = ignores_failures
        self._exit_when_stuck = exit_when_stuck

    def start(self) -> None:
        """Begins to handle messages.

        Raises:
            MisuseError: it is running.
        """
        if self.task is not None:
            raise MisuseError("the runtime is already started")
        self.worker = None
        self.task = asyncio.create_task(self._run(), name="callboard-worker")

    async def _run(self) -> None:
        transport = await self._connection.connected()
        local = self._connection.local
        # Handlers run in tasks that the worker's make, and so in their context: there `resource()` finds what is open.
        async with local.resources.opened({one.name for one in local.consumed()}):
            await self._work(transport, local)

    async def _work(self, transport: RedisTransport, local: LocalTypes) -> None:
        sender = await self._connection.open_sender()
        self.worker = LocalWorker(
            local.agents,
            Executions(transport, local.registry, sender.tokens.of),
            local.consumed(),
            local.retry(transport.settings),
            declare=lambda: local.declare(transport),
            is_sending=lambda: sender.entering > 0,
            exit_when_stuck=self._exit_when_stuck,
            cancelled=self.cancelled,
        )
        async with kept_up(self._scheduler(transport)):
            await self.worker.run()

    def _scheduler(self, transport: RedisTransport) -> Scheduler | None:
        """Looks to the schedules of the app; a process that only sends leaves that to those that work."""
        local = self._connection.local
        if not local.app_name or not local.consumed():
            return None
        return Scheduler(transport, local.registry, local.app_name, local.schedules)

    async def add_type(self, name: str) -> None:
        """An agent type came: the server is told, if it is connected, and so is the worker."""
        transport = await self._connection.if_any()
        if transport is not None:
            await self._connection.local.declare_type(transport, name)
        await self.add_types()

    async def add_types(self) -> None:
        """A type or a subscription came: the worker, if there is one yet, is to look at it."""
        if self.worker is not None and self.task is not None:
            await self.worker.consumer.add_types(self._connection.local.consumed())

    def holds(self, agent_id: AgentId) -> bool:
        """Whether the worker holds a message of this agent."""
        return self.worker is not None and self.worker.consumer.holds(agent_id.type, agent_id.key)

    async def ready(self) -> None:
        """Waits until the worker takes messages; raises what keeps it from that, or has ended it since."""
        task = self._started()
        while not task.done():
            if self.worker is not None and self.worker.consumer.joined.is_set():
                return
            await asyncio.sleep(0.001)
        if self.task is task:
            self.task = None  # the caller is told below how it ended, and may start again
        await task

    async def drain(self, grace: float | None = None) -> None:
        """Takes nothing new, lets handlers finish, gives back the rest; see RedisAgentRuntime.drain."""
        task = self.task
        if task is None:
            return
        if self.worker is None:
            task.cancel()
            await asyncio.wait({task})
        else:
            usual = self._connection.required().settings.drain_grace
            await self.worker.drain(task, usual if grace is None else grace)
        if self.task is not task:
            return  # a call with less patience was here first, and told its caller how it ended
        self.task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def stop(self) -> None:
        """Lets running handlers finish and stops.

        Raises:
            MisuseError: it is not running.
        """
        self._started()
        await self._stop()

    async def stop_when_idle(self) -> None:
        """Stops when nothing is left to do in the whole namespace."""
        task = self._started()
        await self.ready()
        if self.worker is not None:
            await self.worker.until_idle(task, self._has_failed)
        await self._stop()

    async def until_idle(self) -> None:
        """Waits until nothing is left to do in the whole namespace, whichever process does it."""
        transport = await self._connection.connected()
        if self.task is not None:
            await self.ready()
        await until_idle(transport, self.worker, self.task)

    async def stop_when(self, condition: Callable[[], bool]) -> None:
        """Stops as soon as `condition()` is true; it is asked after every change."""
        task = self._started()
        await self.ready()
        if self.worker is not None:
            await self.worker.until(lambda: condition() or self._has_failed(), task)
        await self._stop()

    def _started(self) -> asyncio.Task[None]:
        if self.task is None:
            raise MisuseError("the runtime is not started: call start() first")
        return self.task

    async def _stop(self) -> None:
        await self.drain()
        if self._has_failed() and self.worker is not None:
            error, self.worker.host.first_error = self.worker.host.first_error, None
            if error is not None:
                raise error

    def _has_failed(self) -> bool:
        return (
            not self._ignores_failures
            and self.worker is not None
            and self.worker.host.first_error is not None
        )


STUCK_AFTER = 2.0  # seconds past max_runtime after which a handler counts as one that blocks the loop
STUCK = 75  # exit status of a worker that ended itself (EX_TEMPFAIL)
FIRST_LOOK, LONGEST_LOOK = (
    0.001,
    0.1,
)  # seconds between two looks whether all is idle; twice as long each time
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
            self._transport.clock.observe(turn.server_ms, turn.asked_ms)
        self._changed.set()
        # Before the first handler of this incarnation runs: it may be the one that holds the lock.
        if self._keeper is not None and self._introduced != self.consumer.worker:
            self._introduced = self.consumer.worker
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
    pause, last = FIRST_LOOK, None
    while True:
        look = await transport.idle()
        if any(look[:3]):
            last = None
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_LOOK)
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
