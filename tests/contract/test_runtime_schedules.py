"""Schedules: each due time is sent once, whatever processes look, and what was missed is treated as was said."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel, model_serializer

from callboard import App, MessageContext, RedisAgentRuntime, RoutedAgent, event
from callboard.broker.redis.client.schedules import DeclaredSchedule, ScheduleStore, StoredSchedule, firing
from callboard.broker.redis.operations.doctor import Subject
from callboard.broker.redis.operations.work_checks import examine_schedules
from callboard.core.declaration import Missed
from callboard.errors import SettingValueError, UnknownNameError
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Note, Runtimes


def about_an_hour() -> int:
    """A span, ms, of which a quarter or more is over, and a quarter or more is left: nothing is due while a test runs."""
    now = int(time.time())
    return 1000 * next(span for span in range(3600, 7200) if span / 4 < now % span < span * 3 / 4)


HOUR = about_an_hour()


class Unwritable(BaseModel):
    """A message that can't be made."""

    @model_serializer
    def fail(self) -> dict[str, str]:
        raise OSError("no disk")


def app_with(
    heard: list[str],
    *,
    missed: Missed = "one",
    every: timedelta = timedelta(milliseconds=HOUR),
    **more: Any,
) -> App:
    """An app whose clerk hears of each firing, by its id."""
    app = App("office")

    @app.agent("clerk", topics=["ticks"])
    class Clerk(RoutedAgent):
        @event
        async def on_note(self, message: Note, ctx: MessageContext) -> None:
            heard.append(ctx.message_id)

    app.schedule(every, Note(text="tick"), topic="ticks", name="tick", missed=missed, **more)
    return app


async def started(runtimes: Runtimes, app: App) -> RedisAgentRuntime:
    runtime = runtimes.of(app)
    runtime.start()
    await runtime.ready()
    return runtime


def store_of(runtime: RedisAgentRuntime) -> ScheduleStore:
    return ScheduleStore(runtime.transport.admin)


async def declared(runtime: RedisAgentRuntime) -> StoredSchedule:
    """The schedule, once it is there."""

    return (await eventually(store_of(runtime).all))[0]


async def after_downtime(runtimes: Runtimes, missed: Missed, hours: int) -> list[str]:
    """What is heard when nobody was there for so many hours."""
    heard: list[str] = []
    first = await started(runtimes, app_with(heard, missed=missed))
    stored = await declared(first)
    await first.close()
    looking = runtimes.new()
    await looking.open()
    of, oldest = looking.transport.keys.of, stored.due - hours * HOUR
    await looking.transport.admin.command("HSET", of("schedules"), "next tick", f"{oldest} {stored.digest}")
    runtime = await started(runtimes, app_with(heard, missed=missed))

    async def has_caught_up() -> bool:
        return (await declared(runtime)).due > runtime.transport.now_ms()

    await eventually(has_caught_up)
    await runtime.stop_when_idle()
    return heard


async def test_each_due_time_is_sent_once_by_many_processes(runtimes: Runtimes) -> None:
    heard: list[str] = []
    every = timedelta(milliseconds=100)
    for _ in range(3):
        await started(runtimes, app_with(heard, every=every, missed="all"))
    await eventually(lambda: len(heard) >= 10)
    assert len(set(heard)) == len(heard)
    assert heard == sorted(heard, key=lambda one: one.rstrip("Z"))
    assert all(one.startswith("tick@20") and one.endswith("Z") for one in heard)


async def test_what_was_missed_is_made_up_for_as_was_said(runtimes: Runtimes) -> None:
    heard = await after_downtime(runtimes, "all", 4)
    assert len(heard) == 4


async def test_of_what_was_missed_the_last_one_is_made_up_for(runtimes: Runtimes) -> None:
    heard = await after_downtime(runtimes, "one", 4)
    assert len(heard) == 1


async def test_what_was_missed_may_be_left_out(runtimes: Runtimes) -> None:
    heard = await after_downtime(runtimes, "skip", 4)
    assert heard == []


async def test_what_is_not_due_as_a_process_believes_is_not_sent(runtimes: Runtimes) -> None:
    """A process that stood still between its look and its message, with everything that may come in between."""
    heard: list[str] = []
    app = app_with(heard)
    runtime = await started(runtimes, app)
    stored = await declared(runtime)
    schedule = app.schedules["tick"]
    id_ = firing(stored, stored.due + HOUR)

    async def send() -> bool:
        from callboard.core.declaration import Firing
        from callboard.runtime.scheduler import posting_of

        now = Firing("tick", runtime.transport.now_ms())
        return await runtime.transport.publisher.post(
            posting_of(runtime.transport, runtime.registry, schedule, now, id_)
        )

    assert await runtime.schedules.pause("tick")
    assert not await send()
    assert await runtime.schedules.resume("tick")
    assert await send()
    assert not await send()
    now = await declared(runtime)
    assert (now.due, now.count) == (stored.due + HOUR, 1)
    assert now.sent is not None


async def test_another_timetable_counts_from_the_next_start(runtimes: Runtimes) -> None:
    first = await started(runtimes, app_with([]))
    before = await declared(first)
    again = await started(runtimes, app_with([]))
    assert await declared(again) == before
    other = await started(runtimes, app_with([], every=timedelta(milliseconds=7 * HOUR)))

    async def is_other() -> bool:
        return (await declared(other)).digest != before.digest

    await eventually(is_other)
    assert (await declared(other)).due % (7 * HOUR) == 0


async def test_a_schedule_that_is_not_declared_any_more_ends(runtimes: Runtimes) -> None:
    await declared(await started(runtimes, app_with([])))
    app = App("office")
    app.agent("clerk")(
        type("Clerk", (RoutedAgent,), {"__init__": lambda self: RoutedAgent.__init__(self, "")})
    )
    runtime = await started(runtimes, app)

    async def is_gone() -> bool:
        return await runtime.schedules.list() == []

    await eventually(is_gone)


async def test_schedules_are_listed_paused_resumed_and_removed(runtimes: Runtimes) -> None:
    heard: list[str] = []
    runtime = await started(runtimes, app_with(heard))
    await declared(runtime)
    (status,) = await runtime.schedules.list()
    assert (status.name, status.app, status.when) == (
        "tick",
        "office",
        f"every {timedelta(milliseconds=HOUR)}",
    )
    assert (status.to, status.what, status.missed) == ("topic ticks", "Note(text='tick')", "one")
    assert (status.paused, status.sent, status.count) == (None, None, 0)
    assert await runtime.schedules.pause("tick", by="ada")
    assert not await runtime.schedules.pause("tick")
    (status,) = await runtime.schedules.list()
    assert (status.paused is not None, status.paused_by) == (True, "ada")
    assert await runtime.schedules.resume("tick")
    assert not await runtime.schedules.resume("tick")
    name = await runtime.schedules.run_now("tick")
    await eventually(lambda: heard == [name])
    await runtime.schedules.remove("tick")
    assert await runtime.schedules.list() == []
    for order in (runtime.schedules.pause, runtime.schedules.resume, runtime.schedules.remove):
        with pytest.raises(UnknownNameError, match="tick"):
            await order("tick")
    with pytest.raises(UnknownNameError, match="Did you mean 'tick'"):
        await runtime.schedules.run_now("tock")


async def test_the_doctor_names_schedules_that_are_late(runtimes: Runtimes) -> None:
    runtime = runtimes.new()
    await runtime.open()
    subject = Subject(runtime.transport)
    assert [finding.what for finding in await examine_schedules(subject)] == ["0 schedules, none is late"]
    store, now = store_of(runtime), runtime.transport.now_ms()
    await store.declare(
        "office", [DeclaredSchedule("soon", "{}", "a", now + HOUR), DeclaredSchedule("held", "{}", "a", 1)]
    )
    await store.pause("held", now)
    assert [finding.level for finding in await examine_schedules(subject)] == ["ok"]
    await store.declare("office", [DeclaredSchedule("late", "{}", "a", now - HOUR)])
    (found,) = await examine_schedules(subject)
    assert (found.level, "late: late" in found.what) == ("warning", True)


async def test_what_a_server_lost_is_declared_again(
    runtimes: Runtimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after FLUSHALL: the finding was that nothing was sent any more until a process was started."""
    monkeypatch.setattr("callboard.runtime.scheduler.LOOK_EVERY", 0.05)
    heard: list[str] = []
    runtime = await started(runtimes, app_with(heard, every=timedelta(milliseconds=100)))
    await declared(runtime)
    await runtime.transport.admin.command("DEL", runtime.transport.keys.of("schedules"))
    known = len(heard)
    await eventually(lambda: len(heard) > known + 1)


async def test_what_was_sent_is_not_due_again_by_another_timetable(runtimes: Runtimes) -> None:
    """A process looks at the clock, stands still, and declares its timetable when others have sent what it found due."""
    heard: list[str] = []
    runtime = await started(runtimes, app_with(heard, every=timedelta(milliseconds=100)))
    looked_at = runtime.transport.now_ms()
    await eventually(lambda: len(heard) >= 2)
    store, before = store_of(runtime), await declared(runtime)

    assert not await store.declare("office", [DeclaredSchedule("tick", "{}", "other", looked_at)])

    assert (await declared(runtime)).digest == before.digest
    assert await store.declare(
        "office", [DeclaredSchedule("tick", "{}", "other", runtime.transport.now_ms() + HOUR)]
    )


async def test_what_stands_in_the_way_stops_nothing_else(runtimes: Runtimes) -> None:
    heard: list[str] = []
    app = app_with(heard, every=timedelta(milliseconds=100))
    span = timedelta(milliseconds=100)
    app.schedule(span, Note(text="x" * 3_000_000), topic="ticks", name="large")
    app.schedule(span, Unwritable(), topic="ticks", name="broken")
    runtime = await started(runtimes, app)
    await eventually(lambda: len(heard) >= 2)
    key = runtime.transport.keys.of("schedules")
    await runtime.transport.admin.command("HSET", key, "declared odd", "[]", "next odd", f"{'9' * 5000} x")
    before = len(heard)
    await eventually(lambda: len(heard) > before + 2)
    assert {one.name for one in await runtime.schedules.list()} == {"broken", "large", "tick"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topic": None}, "topic=None"),
        ({"name": "two words"}, "name='two words'"),
        ({"missed": "twice"}, "missed='twice'"),
        ({"conversation": "a"}, "topic='ticks'"),
        ({"tz": "Berlin"}, "tz='Berlin'"),
        ({"name": "first"}, "name='first'"),
    ],
)
def test_a_schedule_that_can_not_be_is_refused(options: dict[str, Any], said: str) -> None:
    app = App("office")
    app.schedule("@daily", Note(), topic="ticks", name="first")
    with pytest.raises(SettingValueError, match=said):
        app.schedule("0 9 * * *", Note(), **{"topic": "ticks", "name": "second", **options})


async def test_only_those_that_work_look_to_schedules(runtimes: Runtimes) -> None:
    runtime = runtimes.of(app_with([]), types=())
    runtime.start()
    await runtime.ready()
    await asyncio.sleep(0)
    assert await runtime.schedules.list() == []
