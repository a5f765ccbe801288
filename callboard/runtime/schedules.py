"""The schedules of a namespace: listed, paused, resumed, removed, and sent at once; from any process."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from callboard.broker import MessageRegistry
from callboard.broker.redis.client.schedules import ScheduleStore, StoredSchedule
from callboard.broker.redis.client.transport import RedisTransport
from callboard.errors import did_you_mean
from callboard.schedules import Firing, Schedule

from .errors import UnknownScheduleError
from .firing import posting_of


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """A schedule, as a list shows it.

    Attributes:
        name: Of the schedule.
        app: The app that declared it.
        when: Its timetable, for people.
        to: Where its messages go.
        what: What is sent.
        missed: What becomes of due times at which nobody was there.
        due: When it is due next.
        paused: Since when it is paused; None: it is not.
        paused_by: Who paused it; "": not said.
        sent: When something was sent last; None: nothing was.
        count: How often something was sent.
    """

    name: str
    app: str
    when: str
    to: str
    what: str
    missed: str
    due: datetime
    paused: datetime | None
    paused_by: str
    sent: datetime | None
    count: int


class Schedules:
    """Looks at schedules and gives orders to them. `runtime.schedules` is one.

    Args:
        connect: Returns the open transport.
        registry: Message classes.
        declared: The schedules of this process's app, by name.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[RedisTransport]],
        registry: MessageRegistry,
        declared: Mapping[str, Schedule],
    ) -> None:
        self._connect = connect
        self._registry = registry
        self._declared = declared

    async def list(self) -> list[ScheduleStatus]:
        """All schedules of the namespace, by name."""
        store = await self._store()
        return [_status(stored) for stored in await store.all()]

    async def pause(self, name: str, *, by: str = "") -> bool:
        """Sends nothing until `resume`; what fell due meanwhile is treated as missed then.

        Returns:
            False when it was paused already.

        Raises:
            UnknownScheduleError: There is none of this name (a LookupError).
        """
        store = await self._store()
        transport = await self._connect()
        return await store.pause(name, transport.now_ms(), by) or await self._no(store, name)

    async def resume(self, name: str) -> bool:
        """Goes on, within five seconds; False when it was not paused.

        Raises:
            UnknownScheduleError: There is none of this name (a LookupError).
        """
        store = await self._store()
        return await store.resume(name) or await self._no(store, name)

    async def remove(self, name: str) -> None:
        """Forgets it. As long as an app declares it, the next process of that app that starts brings it back.

        Raises:
            UnknownScheduleError: There is none of this name (a LookupError).
        """
        store = await self._store()
        if not await store.remove(name):
            await self._no(store, name)

    async def run_now(self, name: str) -> str:
        """Sends its message now, whatever is due; what is due next stays as it is.

        Returns:
            The id of the message, or of the run that it begins.

        Raises:
            UnknownScheduleError: This process's app does not declare it (a LookupError).
        """
        schedule = self._declared.get(name)
        if schedule is None:
            raise UnknownScheduleError(name, did_you_mean(name, self._declared))
        transport = await self._connect()
        posting = posting_of(transport, self._registry, schedule, Firing(name, transport.now_ms()))
        await transport.publisher.post(posting)
        return posting.envelope.id

    async def _store(self) -> ScheduleStore:
        return ScheduleStore((await self._connect()).admin)

    async def _no(self, store: ScheduleStore, name: str) -> bool:
        """False where there is a schedule of this name."""
        known = [one.name for one in await store.all()]
        if name not in known:
            raise UnknownScheduleError(name, did_you_mean(name, known))
        return False


def _status(stored: StoredSchedule) -> ScheduleStatus:
    try:
        said = json.loads(stored.declared)
    except ValueError:  # written by hand
        said = {}
    shown = {name: str(said.get(name, "")) if isinstance(said, dict) else "" for name in SHOWN}
    return ScheduleStatus(
        name=stored.name,
        app=stored.app,
        **shown,
        due=_time(stored.due),
        paused=None if stored.paused is None else _time(stored.paused),
        paused_by=stored.paused_by,
        sent=None if stored.sent is None else _time(stored.sent),
        count=stored.count,
    )


SHOWN = ("when", "to", "what", "missed")


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
