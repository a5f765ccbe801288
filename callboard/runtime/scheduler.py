"""Sends what is due, in every worker process of an app; the server sees to it that each due time is sent once.

The server remembers what is due next. A process that finds it due sends the message under an id that names what it expects
to be due, and what is due then; the server takes the first such message, and puts the due time on, in one step. So it does
not matter how many processes look, nor where one of them dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Final

from callboard.broker import MessageRegistry, TopicId
from callboard.broker.envelope import Claim, Posting, event, is_set_aside
from callboard.broker.errors import BrokerError
from callboard.broker.ids import IdSource
from callboard.broker.limits import Limits
from callboard.broker.redis import keys
from callboard.broker.redis.client.schedules import DeclaredSchedule, ScheduleStore, StoredSchedule, firing
from callboard.broker.redis.client.transport import RedisTransport
from callboard.core.declaration import Firing, Schedule
from callboard.foundation.tasks import meanwhile

logger = logging.getLogger("callboard.actors")

LOOK_EVERY: Final = 5.0  # seconds: so soon is seen what was resumed
DECLARE_AGAIN: Final = 0.2  # seconds until due times are looked up again that were too old to be declared
LATE: Final = 60_000  # ms after which a due time counts as missed, at most
HICCUP: Final = 1_000  # ms that a due time may be late in any case: processes stand still for so long
MOST_MISSED: Final = 1000  # due times of one schedule that are made up for
STAGGER: Final = 0.02  # seconds: processes that look at different times find less to do


class Scheduler:
    """Looks to the schedules of one app.

    Args:
        transport: The connection to the server.
        registry: Message classes.
        app: Name of the app.
        schedules: By name.
    """

    def __init__(
        self,
        transport: RedisTransport,
        registry: MessageRegistry,
        app: str,
        schedules: Mapping[str, Schedule],
    ) -> None:
        self._transport = transport
        self._registry = registry
        self._app = app
        self._schedules = schedules
        self._store = ScheduleStore(transport.admin)
        self._stagger = random.uniform(0, STAGGER)
        # How often the app had declared its schedules when this process had; 0: it has not.
        self._declared = 0
        self._told: dict[str, str] = {}

    async def run(self) -> None:
        """Declares them, and sends what is due; ends when there are none, else when it is cancelled."""
        while not self._declared or self._schedules:
            pause = LOOK_EVERY
            try:
                self._declared = self._declared or await self._declare()
                pause = await self._look() if self._declared else DECLARE_AGAIN
            except BrokerError as error:
                self._tell("", f"schedules can't be looked to, and are tried again: {error}")
            await asyncio.sleep(pause + self._stagger)

    async def _declare(self) -> int:
        now = self._transport.now_ms()
        declared = [
            DeclaredSchedule(one.name, _said(one), one.timetable.digest, one.timetable.after(now))
            for one in self._schedules.values()
        ]
        return await self._store.declare(self._app, declared)

    async def _look(self) -> float:
        """Sends what is due. Returns in how many seconds to look again."""
        soonest = self._transport.now_ms() + int(LOOK_EVERY * 1000)
        found, declared = await self._store.look(self._app)
        # The server has lost what was declared here.
        if declared < self._declared:
            self._declared = 0
            return 0.0
        for stored in found:
            schedule = self._schedules.get(stored.name)
            # Another process has declared it with another timetable, since this one has started: it is theirs.
            if schedule is not None and stored.digest == schedule.timetable.digest and stored.paused is None:
                soonest = min(soonest, await self._see_to(schedule, stored))
        return max(0.0, (soonest - self._transport.now_ms()) / 1000)

    async def _see_to(self, schedule: Schedule, stored: StoredSchedule) -> int:
        """Sends what is due of one. Returns when to look at it again, server ms."""
        try:
            oldest = await self._oldest(schedule, stored.due)
            while stored.due <= (now := self._transport.now_ms()):
                due, following = step(schedule, stored.due, oldest, now)
                if due is None:
                    is_mine = await self._store.pass_over(stored, following)
                else:
                    is_mine = await self._send(schedule, stored, due, following)
                if not is_mine:
                    return following
                stored = replace(stored, due=following)
        except BrokerError as error:
            self._tell(
                schedule.name, f"the schedule {schedule.name} could not send, and tries again: {error}"
            )
            return self._transport.now_ms() + int(LOOK_EVERY * 1000)
        return stored.due

    async def _oldest(self, schedule: Schedule, due: int) -> int:
        """The oldest due time that is made up for, where each of them is."""
        moment = now = self._transport.now_ms()
        if schedule.missed != "all" or due >= now - grace(schedule, due):
            return due
        for _ in range(MOST_MISSED):
            moment = schedule.timetable.until(moment - 1)
            if moment <= due:
                return due
            await asyncio.sleep(0)  # messages are handled in this loop as well
        logger.warning(
            "the schedule %s has missed more than %d due times: older ones are left out",
            schedule.name,
            MOST_MISSED,
        )
        return moment

    async def _send(self, schedule: Schedule, stored: StoredSchedule, due: int, following: int) -> bool:
        """False when another process has sent it, or it is paused."""
        posting = posting_of(
            self._transport, self._registry, schedule, Firing(schedule.name, due), firing(stored, following)
        )
        return await self._transport.publisher.post(posting)

    def _tell(self, name: str, text: str) -> None:
        """A warning, once; the list of schedules shows what is late."""
        if self._told.get(name) != text:
            self._told[name] = text
            logger.warning("%s", text)


def grace(schedule: Schedule, due: int) -> int:
    """How late a due time may be until it counts as missed, ms: until the next one is due, from a second to a minute."""
    return min(LATE, max(HICCUP, schedule.timetable.after(due) - due))


def step(schedule: Schedule, due: int, oldest: int, now: int) -> tuple[int | None, int]:
    """The due times of a schedule that are sent now, and the next one; all of them ms.

    Args:
        schedule: The schedule.
        due: Its next due time.
        oldest: The oldest due time that is made up for, where each of them is.
        now: The server's time.

    Returns:
        The due time for which something is sent, None where nothing is; and the due time after that.
    """
    table, most = schedule.timetable, grace(schedule, due)
    if now - due <= most:
        return due, table.after(due)
    if schedule.missed == "skip":
        return None, table.after(now - most)
    if schedule.missed == "one":
        return table.until(now), table.after(now)
    return (None, oldest) if due < oldest else (due, table.after(due))


def _said(schedule: Schedule) -> str:
    what = {
        "when": schedule.timetable.shown,
        "to": schedule.to,
        "what": schedule.what,
        "missed": schedule.missed,
    }
    return json.dumps(what)


@contextlib.asynccontextmanager
async def kept_up(scheduler: Scheduler | None) -> AsyncIterator[None]:
    """Lets it run in a task of its own."""
    if scheduler is None:
        yield
        return
    async with meanwhile(scheduler.run(), "callboard-schedules"):
        yield


_ids = IdSource()


def posting_of(
    transport: RedisTransport,
    registry: MessageRegistry,
    schedule: Schedule,
    firing: Firing,
    idempotency_id: str = "",
) -> Posting:
    """The message of a due time.

    Args:
        transport: The connection to the server, for its limits.
        registry: Message classes.
        schedule: What is due.
        firing: When it is due: before that time of the server's clock it does not arrive.
        idempotency_id: Under which it is accepted once; "": always.

    Raises:
        EncodeError: The message can't be written, or is too large.
    """
    settings = transport.settings
    message, goal = schedule.send(firing)
    kind = registry.entry_for(message)
    body, claim = kind.encode(message, Limits.of(settings)), None
    if is_set_aside(len(body), None, settings):
        claim = Claim(f"blob:{_ids.next()}", body)
        body = claim.pointer
    if isinstance(goal, TopicId):
        stream, key = keys.topic(goal.type), goal.source
    else:
        stream, key = keys.inbox(goal.type), goal.key
    run = firing.id if schedule.is_run else None
    envelope = event(
        firing.id, kind.name, key, None, body, version=kind.version, claimed=claim is not None, run=run
    )
    return Posting(envelope, stream, -firing.due, idempotency_id, claim=claim)
