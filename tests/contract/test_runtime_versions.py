"""Rolling deploys: a message in a newer version waits for a worker that knows it, and runs in no other."""

from __future__ import annotations

from pydantic import BaseModel

from callboard import App, MessageContext, RoutedAgent, TopicId, event
from callboard.broker import message
from tests.helpers.eventually import eventually, never
from tests.helpers.runtimes import Note, Runtimes, letters, stored


def old_app(handled: list[str]) -> App:
    @message(name="Job")
    class Job(BaseModel):
        text: str = ""

    app = App("deploy")

    @app.agent("worker", topics=["work"])
    class Worker(RoutedAgent):
        @event
        async def on_job(self, message: Job, ctx: MessageContext) -> None:
            handled.append(f"old {message.text}")

        @event
        async def on_note(self, message: Note, ctx: MessageContext) -> None:
            handled.append(f"old {message.text}")

    return app


@message(name="Job", version=2, upgrade_from={1: lambda data: {"title": data["text"]}})
class Job2(BaseModel):
    title: str = ""


@message(name="Extra")
class Extra(BaseModel):
    title: str = ""


def new_app(handled: list[str]) -> App:
    app = App("deploy")

    @app.agent("worker", topics=["work"])
    class Worker(RoutedAgent):
        @event
        async def on_job(self, message: Job2, ctx: MessageContext) -> None:
            handled.append(f"new {message.title}")

        @event
        async def on_extra(self, message: Extra, ctx: MessageContext) -> None:
            handled.append(f"new {message.title}")

        @event
        async def on_note(self, message: Note, ctx: MessageContext) -> None:
            handled.append(f"new {message.text}")

    return app


async def test_a_newer_message_waits_for_a_newer_worker_and_its_key_with_it(runtimes: Runtimes) -> None:
    handled: list[str] = []
    old = runtimes.of(old_app(handled), types=["worker"])
    old.start()
    await old.ready()
    publisher = runtimes.of(new_app(handled), types=())
    await publisher.publish_message(Job2(title="a1"), TopicId("work", "a"))
    await publisher.publish_message(Note(text="a2"), TopicId("work", "a"))
    await publisher.publish_message(Note(text="b1"), TopicId("work", "b"))
    await eventually(lambda: handled == ["old b1"])
    await never(lambda: len(handled) > 1)
    assert await letters(publisher, "worker") == []
    new = runtimes.of(new_app(handled), types=["worker"])
    new.start()
    await eventually(lambda: len(handled) == 3)
    await old.stop()
    await new.stop_when_idle()
    assert handled[1] == "new a1"
    assert handled[2].endswith(" a2")
    assert await stored(publisher, "newer", "parked:", "busy:") == []


async def test_with_both_at_work_nothing_new_runs_in_old_code(runtimes: Runtimes) -> None:
    handled: list[str] = []
    old = runtimes.of(old_app(handled), types=["worker"])
    new = runtimes.of(new_app(handled), types=["worker"])
    for runtime in (old, new):
        runtime.start()
        await runtime.ready()
    publisher = runtimes.of(new_app(handled), types=())
    for number in range(40):
        await publisher.publish_message(Job2(title=f"{number}"), TopicId("work", f"k{number % 8}"))
    await eventually(lambda: len(handled) == 40)
    await old.stop()
    await new.stop_when_idle()
    assert sorted(handled) == sorted(f"new {number}" for number in range(40))
    for key in range(8):
        ours = [int(text[4:]) for text in handled if int(text[4:]) % 8 == key]
        assert ours == sorted(ours)


async def test_an_older_message_is_upgraded(runtimes: Runtimes) -> None:
    handled: list[str] = []
    app = old_app(handled)
    publisher = runtimes.of(app, types=())
    await publisher.open()
    [old_class] = [entry.cls for entry in publisher.registry if entry.name == "Job"]
    await publisher.publish_message(old_class(text="x"), TopicId("work", "a"))
    new = runtimes.of(new_app(handled), types=["worker"])
    new.start()
    await new.stop_when_idle()
    assert handled == ["new x"]


async def test_a_message_that_only_newer_workers_ever_knew_waits_too(runtimes: Runtimes) -> None:
    handled: list[str] = []
    new = runtimes.of(new_app(handled), types=["worker"])
    new.start()
    await new.ready()
    await new.stop()
    old = runtimes.of(old_app(handled), types=["worker"])
    old.start()
    await old.ready()
    await new.publish_message(Extra(title="e"), TopicId("work", "a"))
    await never(lambda: handled)
    assert await letters(old, "worker") == []
    new.start()
    await eventually(lambda: handled == ["new e"])


async def test_a_message_that_nobody_ever_knew_is_a_dead_letter(runtimes: Runtimes) -> None:
    old = runtimes.of(old_app([]), types=["worker"])
    old.start()
    await old.ready()
    publisher = runtimes.new()
    await publisher.publish_message(Extra(title="e"), TopicId("work", "a"))
    await old.stop_when_idle()
    [letter] = await letters(old, "worker")
    assert letter["type"] == "Extra"
    assert letter["reason"].startswith("decode: ")
