"""Orders from any process: pause, resume, cancel and reset agents; list, pause, fire and remove schedules."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from callboard.broker import AgentId, AgentType, MessageRegistry
from callboard.broker.ids import IdSource, check_text
from callboard.broker.redis.client.schedules import ScheduleStore, StoredSchedule
from callboard.broker.redis.client.transport import RedisTransport
from callboard.core.declaration import Firing, Schedule
from callboard.errors import UnknownNameError

from .execution import running
from .scheduler import posting_of

if TYPE_CHECKING:
    from callboard.broker.redis.operations.views import Pause


class Control:
    """Gives orders to the workers of a namespace.

    What is paused is not started any more, whatever worker asks, until it is resumed; what runs goes on, unless it is
    paused with `now`. Messages are kept meanwhile and handled in their order afterwards.

    Args:
        connect: returns the open transport.
    """

    def __init__(self, connect: Callable[[], Awaitable[RedisTransport]]) -> None:
        self._connect = connect
        self._ids = IdSource()

    async def pause(self, what: AgentId | AgentType | str, *, by: str = "", now: bool = False) -> bool:
        """Pauses an agent type, or one agent.

        Args:
            what: an agent type, by its name too, or the id of an agent.
            by: who says so, to be shown.
            now: what runs is interrupted, wherever it runs: its handler gets CancelledError, and nothing of it is
                committed. After `resume` it runs again from its start, what `ctx.once` recorded answers at once, and no
                attempt is counted. What is paused already is interrupted as well.

        Returns:
            False when it was paused already.
        """
        return await self._pausing("pause", *_target(what), by, "now" if now else "")

    async def cancel(self, message_id: str) -> None:
        """Cancels a message that was sent with ``tell(..., message_id=..., cancellable=True)``.

        One that was not begun is dropped; where its handler runs, that gets CancelledError, and the message is over
        without any effect. One that is committed already stays so. It is remembered for `dedupe_window`: a message that
        is due later is handled.

        Args:
            message_id: the id that its sender gave it.
        """
        transport = await self._connect()
        # By the server's time: a clock that is behind would let it be forgotten before the message is due.
        until = transport.now_ms() + int(transport.settings.dedupe_window * 1000)
        await transport.order("cancel", check_text("message id", message_id), until)

    async def resume(self, what: AgentId | AgentType | str, *, by: str = "") -> bool:
        """Lets an agent type, or one agent, go on; False when it was not paused."""
        return await self._pausing("resume", *_target(what), by)

    async def pause_topic(self, topic_type: str, *, by: str = "") -> bool:
        """Pauses a topic: its messages are not started any more, those of other topics are.

        An agent whose next message came by this topic waits, also for what came later by others: its order holds.
        """
        return await self._pausing("pause", "topic", topic_type, by)

    async def resume_topic(self, topic_type: str, *, by: str = "") -> bool:
        """Lets a topic go on; False when it was not paused."""
        return await self._pausing("resume", "topic", topic_type, by)

    async def paused(self) -> list[Pause]:
        """The agent types, agents and topics that are paused, the longest-paused first."""
        from callboard.broker.redis.operations.entries import fields_of
        from callboard.broker.redis.operations.inspect import paused

        transport = await self._connect()
        return list(paused(fields_of(await transport.admin.command("HGETALL", transport.keys.of("paused")))))

    async def reset(self, agent_id: AgentId, *, by: str = "") -> bool:
        """Lets an agent begin anew: its state is the default again, before any queued message is handled.

        A message that is being handled is finished first. What is queued stays queued.

        Returns:
            False when its type is not declared, or a reset of it waits already.
        """
        transport = await self._connect()
        return await transport.order("reset", agent_id.type, agent_id.key, self._ids.next(), by)

    async def _pausing(self, action: str, kind: str, name: str, by: str, when: str = "") -> bool:
        transport = await self._connect()
        execution = running(transport)
        # A handler may stand still before this, in a process that was stopped, and go on when another worker has its message
        # and has long let go on what is paused here: it would stay paused.
        # A handler pauses nothing when its message is another worker's: its worker was taken for dead, and came back.
        fence = None if execution is None else execution.fence
        return await transport.order(action, kind, name, by, when, fence=fence)


def _target(what: AgentId | AgentType | str) -> tuple[str, str]:
    if isinstance(what, AgentId):
        return "key", str(what)
    return "type", AgentType(what).type if isinstance(what, str) else what.type


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """A schedule, as a list shows it.

    Attributes:
        name: Of the schedule.
        app: The app that declared it.
        when: Its timetable, for people.
        to: Where its messages go.
        what: What is sent.
        missed: What becomes of due times at which no worker ran.
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
            UnknownNameError: There is none of this name (a LookupError).
        """
        store = await self._store()
        transport = await self._connect()
        return await store.pause(name, transport.now_ms(), by) or await self._no(store, name)

    async def resume(self, name: str) -> bool:
        """Goes on, within five seconds; False when it was not paused.

        Raises:
            UnknownNameError: There is none of this name (a LookupError).
        """
        store = await self._store()
        return await store.resume(name) or await self._no(store, name)

    async def remove(self, name: str) -> None:
        """Forgets it. As long as an app declares it, the next process of that app that starts brings it back.

        Raises:
            UnknownNameError: There is none of this name (a LookupError).
        """
        store = await self._store()
        if not await store.remove(name):
            await self._no(store, name)

    async def run_now(self, name: str) -> str:
        """Sends its message now, whatever is due; what is due next stays as it is.

        Returns:
            The id of the message, or of the run that it begins.

        Raises:
            UnknownNameError: This process's app does not declare it (a LookupError).
        """
        schedule = self._declared.get(name)
        if schedule is None:
            raise UnknownNameError("schedule", name, list(self._declared))
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
            raise UnknownNameError("schedule", name, known)
        return False


SHOWN = ("when", "to", "what", "missed")


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


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
