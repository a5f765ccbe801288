"""The worker of this process: takes messages while it runs, and knows when everything is idle."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from callboard.broker.consumer.consumer import Consumer
from callboard.broker.consumer.interfaces import ConsumedType, Turn
from callboard.broker.delivery import Delivery
from callboard.broker.redis.client.heartbeat import Pulse
from callboard.broker.redis.client.keeper import Keeper, Watch
from callboard.broker.retry import RetryPolicy

from .execution import Executions
from .host import AgentHost
from .local_agents import LocalAgents
from .loop_watch import LoopWatch

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
        keeper = self._keeper = self._transport.keeper(Watch(self._exit_when_stuck, STUCK_AFTER))
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
