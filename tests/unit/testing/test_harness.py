from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import BaseModel

from callboard import App, MessageContext, RoutedAgent, TopicId, event
from callboard.broker.errors import DecodeError, SettingsError
from callboard.testing import Harness, dead_letters, eventually, published
from tests.helpers.servers import ServerProcess


class Note(BaseModel):
    text: str


class Echo(RoutedAgent):
    @event
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        if message.text == "bad":
            raise ValueError("no")
        await self.publish_message(Note(text=message.text.upper()), TopicId("echoes", self.id.key))


def echo_app() -> App:
    app = App("echo")
    app.agent("echo", topics=["notes"], max_attempts=1)(Echo)
    return app


async def test_messages_of_a_topic_are_listed_in_order_and_by_source() -> None:
    async with Harness() as harness:
        runtime = await harness.run(echo_app())
        for text, source in (("a", "x"), ("b", "y"), ("c", "x")):
            await runtime.publish_message(Note(text=text), TopicId("notes", source))
        await runtime.stop_when_idle()
        assert await published(runtime, "notes") == [Note(text="a"), Note(text="b"), Note(text="c")]
        assert await published(runtime, TopicId("echoes", "x")) == [Note(text="A"), Note(text="C")]
        assert await published(runtime, "nothing") == []
        assert await dead_letters(runtime) == []


async def test_what_failed_is_listed_the_oldest_first() -> None:
    async with Harness() as harness:
        runtime = await harness.run(echo_app())
        for _ in range(3):
            await runtime.publish_message(Note(text="bad"), TopicId("notes", "x"))
        await runtime.stop_when_idle()
        letters = await dead_letters(runtime, "echo")
        assert [letter.error for letter in letters] == ["ValueError: no"] * 3
        assert [letter.id for letter in letters] == [letter.id for letter in await dead_letters(runtime)]
        assert letters[0].entry < letters[1].entry < letters[2].entry


async def test_two_runtimes_of_one_harness_are_two_processes_of_one_application() -> None:
    async with Harness() as harness:
        worker, other = await harness.run(echo_app()), harness.runtime()
        await other.open()
        await other.publish_message(Note(text="a"), TopicId("notes", "x"))
        await worker.stop_when_idle()
        assert await published(worker, "echoes") == [Note(text="A")]
        assert worker.settings.namespace == other.settings.namespace == harness.namespace


async def test_two_harnesses_have_nothing_in_common() -> None:
    async with Harness() as one, Harness() as other:
        first, second = one.runtime(), other.runtime()
        await first.publish_message(Note(text="a"), TopicId("notes", "x"))
        assert len(await published(first, "notes")) == 1
        second.registry.register(Note)
        assert await published(second, "notes") == []


async def test_the_namespace_is_deleted_on_a_server() -> None:
    with ServerProcess() as server:
        async with Harness(server.url) as harness:
            runtime = await harness.run(echo_app())
            await runtime.publish_message(Note(text="a"), TopicId("notes", "x"))
            await runtime.stop_when_idle()
        async with Harness(server.url) as later:
            looking = later.runtime()
            await looking.open()
            found = await looking.transport.admin.command("KEYS", f"*{harness.namespace}*")
            assert found == []
        await later.close()


async def test_a_message_beside_its_stream_is_fetched_until_it_was_handled() -> None:
    async with Harness() as harness:
        sender, topic = harness.runtime(), TopicId("notes", "x")
        await sender.publish_message(Note(text="large"), topic, claim_check=True)
        assert await published(sender, topic) == [Note(text="large")]
        worker = await harness.run(echo_app())
        await worker.stop_when_idle()
        assert await published(worker, "echoes") == [Note(text="LARGE")]
        with pytest.raises(DecodeError):
            await published(worker, topic)


async def test_settings_are_given_by_name() -> None:
    async with Harness(max_elements=7) as harness:
        assert harness.settings.max_elements == 7
        assert harness.settings.retry_base < 0.1
    with pytest.raises(SettingsError, match="did you mean 'max_elements'"):
        Harness(max_element=7)


async def test_waiting_gives_what_came_or_says_what_was_seen_last() -> None:
    seen = iter([0, 0, 5])
    assert await eventually(lambda: next(seen)) == 5

    async def never() -> list[int]:
        return []

    with pytest.raises(AssertionError, match=r"not within 0\.02 s: never; last seen: \[\]"):
        await eventually(never, within=0.02)
    with pytest.raises(AssertionError, match=r"not within 0\.02 s: a number; last seen: \[\]"):
        await eventually(never, within=0.02, what=lambda: "a number")


def test_the_helpers_need_no_pytest() -> None:
    code = "import sys, callboard.testing; print([m for m in ('pytest', 'fakeredis', 'redis') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
