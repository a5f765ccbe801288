"""Supervised processes on one server, with a board, as `up` and the demo run them."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from callboard.broker.errors import BrokerError
from callboard.broker.redis.keys import CONTROL
from callboard.foundation.meanwhile import meanwhile
from callboard.process.launching import environment, worker_command
from callboard.process.reloading import Reloader
from callboard.process.supervisor import Ending, ProcessPlan, RestartPolicy, Supervisor

from .board import Board, Meter

if TYPE_CHECKING:
    from callboard.broker.redis.client.transport import RedisTransport
    from callboard.broker.redis.operations.inspect import Overview

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """The processes to run, and the settings that they share.

    Attributes:
        target: `module:app`.
        processes: The number of processes for each agent type.
        url: Of the server; None: the embedded one.
        namespace: The namespace on it.
        grace: Seconds that running handlers get.
        policy: When to restart.
        options: Further options of `callboard worker`.
        environ: Added to the environment of the processes.
    """

    target: str
    processes: Mapping[str, int]
    url: str | None
    namespace: str
    grace: float
    policy: RestartPolicy
    options: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict)

    def plans(self) -> list[ProcessPlan]:
        """One per process; several of a type are numbered."""
        return [
            ProcessPlan(
                name=agent_type if count == 1 else f"{agent_type}.{number}",
                group=agent_type,
                command=worker_command(
                    self.target,
                    agent_type,
                    namespace=self.namespace,
                    grace=self.grace,
                    options=self.options,
                ),
            )
            for agent_type, count in self.processes.items()
            for number in range(1, count + 1)
        ]


class Fleet:
    """The processes of a plan, run by a supervisor and shown on a board.

    Args:
        plan: The processes to run.
        transport: To inspect the namespace, and to give back the messages that a dead process held.
        board: Shows the run.
        revive: Starts the server again if it died.
    """

    def __init__(
        self,
        plan: FleetPlan,
        transport: RedisTransport,
        board: Board,
        revive: Callable[[], Awaitable[None]],
    ) -> None:
        self.supervisor = Supervisor(
            plan.plans(),
            listener=board,
            release=self._release,
            grace=plan.grace,
            policy=plan.policy,
            environ={**environment(plan.url), **plan.environ},
            patience=transport.settings.lease,
            # A worker may wait so long for an answer until it notices that the server it asked is gone.
            patience_after_loss=transport.settings.lease + transport.settings.socket_timeout,
        )
        self._transport = transport
        self._board = board
        self._revive = revive
        self._meter = Meter()
        self._looked_at = 0.0

    async def run(self) -> Ending:
        """Runs until a signal, or `supervisor.stop()`.

        Raises:
            CommandError: The user of the server may not work; nothing was started.
            GaveUpError: A process died too often.
            UnfitError: A process would always end so.
        """
        await self._check_rights()
        watching = asyncio.create_task(self._watch())
        try:
            with self._signals():
                return await self.supervisor.run()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            with contextlib.suppress(BrokerError):
                await self.look()

    async def _check_rights(self) -> None:
        """Asks what every worker begins with: who may not is told once, and not by each process."""
        admin = self._transport.admin
        newest = ("XREVRANGE", self._transport.keys.of(CONTROL), "+", "-", "COUNT", 1)
        await admin.despite_losses(lambda: admin.command(*newest))

    async def look(self) -> Overview:
        """Shows the present state of the namespace.

        Raises:
            BrokerError: The server does not answer.
        """
        from callboard.broker.redis.operations.inspect import overview

        view = await overview(self._transport)
        self._excuse_a_gap()
        self._board.show(self._meter.rows(view, self.supervisor.children))
        leases = {worker.name: view.at + worker.lease_ms_left for worker in view.workers}
        self.supervisor.observe(leases, view.at)
        return view

    def _excuse_a_gap(self) -> None:
        """Between two looks the server stood still, or this machine did: the leases that ended meanwhile say nothing."""
        now = asyncio.get_running_loop().time()
        longest = self._board.every + self._transport.settings.lease / 2
        if self._looked_at and now - self._looked_at > longest:
            self.supervisor.server_is_away()
        self._looked_at = now

    async def _watch(self) -> None:
        complained = False
        while True:
            try:
                await self.look()
                complained = False
            except BrokerError as error:
                if not complained:
                    self._board.notice(f"{error}; trying again")
                complained = True
                self.supervisor.server_is_away()
                with contextlib.suppress(BrokerError):
                    await self._revive()
            await asyncio.sleep(self._board.every)

    async def _release(self, workers: str, crashed: bool) -> None:
        await self._transport.admin.run("leave", ("1" if crashed else "0", "", workers))

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in STOPPING:
            loop.add_signal_handler(number, self._stop)
        for number in PASSED_ON:
            loop.add_signal_handler(number, self.supervisor.forward, number)
        try:
            yield
        finally:
            for number in (*STOPPING, *PASSED_ON):
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        if not self.supervisor.is_stopping:
            self._board.notice("draining: handlers that run may finish; once more stops at once")
        self.supervisor.stop()


def reloading(fleet: Fleet, plan: FleetPlan, board: Board) -> AbstractAsyncContextManager[None]:
    """Starts the processes of a fleet anew, within it, when a Python file in the current folder or below changes."""
    reloader = Reloader(
        plan.target,
        plan.processes,
        folder=Path.cwd(),
        notice=board.notice,
        renew=fleet.supervisor.renew,
    )
    return meanwhile(reloader.run(), "callboard-reloader")
