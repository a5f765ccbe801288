"""The lease of a worker, extended from a thread with a connection of its own.

A handler that blocks the event loop for minutes must not cost the worker its lease, so nothing here touches the loop.
The beat also reaps workers that stopped beating, fires timers and trims streams: see beat/beat.lua.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from callboard.broker.errors import BrokerError
from callboard.broker.redis.keys import Keys
from callboard.broker.settings import BrokerSettings

from .blocking import BlockingConnection, connect, run
from .endpoint import Endpoint
from .file_renewal import renew_file
from .health import HealthFile
from .keeper import Keeper

logger = logging.getLogger("callboard.broker")

AGAIN = 30  # beats that there is time for between two others, when there is much to tidy up: 3 to 8 ms each

FIRST_PAUSE, LONGEST_PAUSE = 0.0005, 0.02  # seconds between two looks at whether the thread has ended


class Pulse(NamedTuple):
    """What a beat says of its worker.

    Attributes:
        worker: the present incarnation; "" for none, or for one that is not to be kept alive.
        acknowledged: number of its last call that was answered.
        held: deliveries that it holds.
        running: handlers under way.
        runs: the same by agent type, `<type> <n> <type> <n> ...`.
        blocked: while a handler blocks the event loop: for how many seconds, a space, and what it is; else "".
    """

    worker: str
    acknowledged: int
    held: int
    running: int
    runs: str = ""
    blocked: str = ""


class Heartbeat:
    """Beats for the current incarnation of one worker until stopped.

    Args:
        pulse: what there is to say; called in the thread, must not block.
        on_fenced: called in the thread when the server does not know the worker any more, or has lost what it knew.
        keeper: told of each beat; it goes with this heartbeat.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        keys: Keys,
        settings: BrokerSettings,
        pulse: Callable[[], Pulse],
        on_fenced: Callable[[str], None],
        keeper: Keeper | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._keys = keys
        self._settings = settings
        self._pulse = pulse
        self._on_fenced = on_fenced
        self._keeper = keeper
        self._health = HealthFile(Path(settings.health_file)) if settings.health_file else None
        self._stop = threading.Event()
        self._connection: BlockingConnection | None = None
        self._leaves = False
        self._thread = threading.Thread(target=self._run, name="callboard-heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; waits for a beat that is under way."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(self._settings.connect_timeout)

    async def end(self) -> None:
        """As `stop`, without blocking the event loop and without a thread of its executor, which would stay."""
        self._stop.set()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.connect_timeout
        pause = FIRST_PAUSE
        while self._thread.is_alive() and loop.time() < deadline:
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    @property
    def connected_to(self) -> Endpoint | None:
        """Where the open connection leads."""
        connection = self._connection
        return None if connection is None else connection.endpoint

    def break_off(self, reason: str) -> None:
        """The next beat goes over a new connection."""
        logger.debug("the heartbeat leaves its server: %s", reason)
        self._leaves = True

    def _run(self) -> None:
        complained = False
        pause = self._settings.beat_every
        while not self._stop.wait(pause):
            pause = self._settings.beat_every
            try:
                # What is too much for one call goes on soon, in small ones: most of the time is for others.
                if self._beat():
                    pause /= AGAIN
                complained = False
            except BrokerError as error:
                self._hang_up()
                if not complained:
                    logger.warning("heartbeat failed, trying again: %s", error)
                complained = True
            except Exception:  # a thread that ended in silence would cost the worker its lease
                self._hang_up()
                if not complained:
                    logger.exception("heartbeat failed, trying again")
                complained = True
        self._hang_up()
        if self._keeper is not None:
            self._keeper.close()
        if self._health is not None:
            self._health.remove()

    def _tell_keeper(self, worker: str) -> None:
        if self._keeper is not None:
            self._keeper.tell(worker)

    def _beat(self) -> bool:
        """One beat; whether the server has more to tidy up."""
        worker, acknowledged, held, running, runs, blocked = self._pulse()
        # guard: a worker's heart beats
        if not worker:
            self._tell_keeper("")
            return False
        settings = self._settings
        lease = int(settings.lease * 1000)
        forget = int(settings.forget_topics_after * 1000)
        about_streams = (settings.retain, settings.max_unclaimed)
        arguments = (worker, lease, *about_streams, held, running, acknowledged, forget, runs, blocked)
        answer = run(self._connected(), self._keys, "beat", arguments)
        self._tell_keeper(worker)
        # `worker` and not the present name: the loop may have joined anew while the beat was under way, and a lost lease
        # of the old incarnation must not be told of the new one.
        # guard: a lost lease is told
        if answer[0] == b"FENCED":
            self._on_fenced(worker)
            return False
        if self._health is not None:
            self._health.renew(worker)
        return bool(answer[3])

    def _connected(self) -> BlockingConnection:
        if self._leaves and self._connection is not None:
            self._connection.close()
            self._connection = None
        self._leaves = False
        if self._connection is None:
            # Twice in a lease it must be possible to notice a dead connection and make a new one.
            patience = max(0.2, self._settings.lease / 3)
            self._connection = connect(self._endpoint, patience, "callboard-heartbeat")
            # The server may have been started again.
            # guard: half a transaction at the end of a server's file is not carried out later
            if self._settings.renew_file and self._endpoint.scheme != "memory":
                renew_file(self._connection)
        return self._connection

    def _hang_up(self) -> None:
        # A worker that has lost the server loses its lease: its keeper does not extend it.
        self._tell_keeper("")
        if self._connection is not None:
            self._connection.close()
            self._connection = None
