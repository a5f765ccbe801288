from __future__ import annotations

import asyncio
import os
import time

import pytest

from callboard.broker import BrokerSettings
from callboard.broker.envelope import Envelope, Fence, Posting
from callboard.broker.errors import FencedError, ServerUnavailableError, SettingsError
from callboard.broker.redis.client.states import StoredState
from callboard.broker.redis.client.transport import Declared, RedisTransport
from tests.unit.broker.redis.servers import WorkerDriver, driver, server_url, transport

__all__ = ["driver", "server_url", "transport"]


# Declaring


async def test_declaring_twice_changes_nothing(transport: RedisTransport) -> None:
    again = [Declared("counter", "topic", "visits"), Declared("counter", "topic", "orders")]
    await transport.declare({"counter": {"max_attempts": 3}}, again)
    assert await transport.admin.command("HGET", transport.keys.of("topics"), "visits") == b"counter audit"


async def test_a_namespace_that_was_made_with_other_shards_is_refused(transport: RedisTransport) -> None:
    await transport.admin.command("HSET", transport.keys.of("config"), "shards", 4)
    with pytest.raises(SettingsError, match="has 4 shards and this process is set to 1"):
        await transport.declare({"counter": {}}, [])


async def test_a_subscription_ends_once(transport: RedisTransport) -> None:
    assert await transport.unsubscribe(Declared("audit", "topic", "visits"))
    assert not await transport.unsubscribe(Declared("audit", "topic", "visits"))
    assert await transport.admin.command("HGET", transport.keys.of("topics"), "visits") == b"counter"


# States, results, names


async def test_states_are_kept_by_version(transport: RedisTransport) -> None:
    assert await transport.load_state("counter", "ada") == StoredState()
    for number, data in enumerate((b"one", b"\xff"), 1):
        assert await transport.save_state("counter", "ada", data) == number
    assert await transport.load_state("counter", "ada") == StoredState(2, b"\xff")
    assert await transport.stored_keys("counter") == ["ada"]


async def test_recorded_results_are_kept_by_name_and_expire(transport: RedisTransport) -> None:
    assert await transport.recorded(None, "counter", "m1", "pay") is None
    await transport.record(None, "counter", "m1", "pay", b"\x01")
    await transport.record(None, "counter", "m1", "mail", b"\x02")
    assert await transport.record(None, "counter", "m1", "pay", b"\x03") == b"\x01", "the first one stays"
    assert await transport.recorded(None, "counter", "m1", "pay") == b"\x01"
    assert await transport.recorded(None, "counter", "m1", "mail") == b"\x02"
    fence = Fence("host:1:0", b"counter topic:visits 1-1")
    for call in (
        transport.recorded(fence, "counter", "m1", "pay"),
        transport.record(fence, "counter", "m1", "other", b"x"),
    ):
        with pytest.raises(FencedError, match="host:1:0 lost its lease"):
            await call
    left = await transport.admin.command("PTTL", transport.keys.of("once:counter:m1"))
    assert 0 < left <= 86_400_000


async def test_names_with_the_letters_of_patterns_are_found_and_no_others(transport: RedisTransport) -> None:
    for key in ("a*b", "a?b", "a[b]", "a\\b", "axb", "/", "", "é"):
        await transport.save_state("counter", key, b"")
    await transport.save_state("count*", "other", b"")
    assert sorted(await transport.stored_keys("counter")) == sorted(
        ["a*b", "a?b", "a[b]", "a\\b", "axb", "/", "", "é"]
    )
    assert await transport.stored_keys("count*") == ["other"]
    assert sorted(await transport.names_after(transport.keys.of("state:counter:a["))) == ["b]"]


async def test_a_namespace_is_removed_whole_and_alone(server_url: str, transport: RedisTransport) -> None:
    other = RedisTransport(server_url, BrokerSettings(namespace=f"{transport.settings.namespace}-2"))
    await other.save_state("counter", "kept", b"kept")
    for number in range(600):
        await transport.save_state("counter", f"k{number}", b"")
    await transport.admin.command(
        "RPUSH", transport.keys.prefix.encode() + b"wait:counter:\xff\xfe", "by hand"
    )
    assert "wait:counter:\ufffd\ufffd" in await transport.names_after(transport.keys.prefix)
    await transport.delete_namespace()
    assert await transport.names_after(transport.keys.prefix) == []
    assert await other.load_state("counter", "kept") == StoredState(1, b"kept")
    await other.close(delete_namespace=True)


# What is left to do


async def test_looking_for_what_is_left_begins_anew_where_the_server_may_be_another(
    transport: RedisTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place has the cursor of a scan, by which another server passes over what waits."""
    places: list[str | bytes] = []

    async def run(name: str, arguments: tuple[str | bytes]) -> tuple[int, int, int, bytes, bytes]:
        places.append(arguments[0])
        if len(places) == 2:
            transport.admin.break_off("the server is started again")
            await transport.admin.channel()
        return (0, 0, 0, b"7-0", b"counter 96") if len(places) == 1 else (len(places) - 2, 0, 0, b"8-0", b"")

    await transport.admin.channel()
    monkeypatch.setattr(transport.admin, "run", run)
    assert await transport.idle() == (1, 0, 0, b"8-0")
    assert places == ["", b"counter 96", ""]


# Closing


async def test_closing_leaves_no_task_and_no_connection(server_url: str) -> None:
    before = asyncio.all_tasks()
    transport = RedisTransport(server_url, BrokerSettings(namespace=f"test-{os.urandom(4).hex()}"))
    await transport.declare({"counter": {}}, [])
    transport.requests.ask(Posting(Envelope("r1", "Ask", "ada", None, 0, b"{}"), "inbox:counter"))
    await transport.publisher.post(Posting(Envelope("m1", "Note", "k", None, 0, b""), "topic:x"))
    await transport.close(delete_namespace=True)
    assert not transport.admin.is_open
    left = asyncio.all_tasks() - before
    # A blocking read of fakeredis goes on in the background until its time is over.
    assert not [task for task in left if "fakeredis" not in repr(task)]
    await transport.close()


# The rest


async def test_a_full_topic_is_warned_of_once(server_url: str, caplog: pytest.LogCaptureFixture) -> None:
    settings = BrokerSettings(namespace=f"test-{os.urandom(4).hex()}", max_unclaimed=5)
    transport = RedisTransport(server_url, settings)
    for number in range(3):
        notes = [
            Posting(Envelope(f"{number}-{n}", "Note", "k", None, 0, b""), "topic:unread") for n in range(200)
        ]
        await asyncio.gather(*(transport.publisher.post(one) for one in notes))
    assert caplog.text.count("the topic 'unread' has no subscriber: only its newest 5 messages are kept") == 1
    await transport.close(delete_namespace=True)


async def test_what_can_not_be_deleted_keeps_nothing_open() -> None:
    transport = RedisTransport("redis://127.0.0.1:1", BrokerSettings())
    with pytest.raises(ServerUnavailableError):
        await transport.close(delete_namespace=True)
    assert transport.admin.is_closed


async def test_idle_tells_what_is_to_be_done(driver: WorkerDriver) -> None:
    quiet = await driver.transport.idle()
    assert quiet[:3] == (0, 0, 0)
    await driver.publish("topic:orders", "ada")
    unread = await driver.transport.idle()
    assert unread[0] == 1
    assert unread[3] != quiet[3], "the mark of the last message"
    held = await driver.take("counter")
    assert (await driver.transport.idle())[:2] == (0, 1)
    await driver.finish(*held)
    assert (await driver.transport.idle())[:3] == (0, 0, 0)


def test_the_servers_clock_is_followed() -> None:
    transport = RedisTransport("redis://127.0.0.1:1", BrokerSettings())
    assert abs(transport.now_ms() - time.time() * 1000) < 1000
    transport.clock.observe(int(time.time() * 1000) - 3_600_000, None)
    assert abs(transport.now_ms() - (time.time() * 1000 - 3_600_000)) < 1000


async def test_every_process_and_transport_has_its_own_stream_of_replies(server_url: str) -> None:
    settings = BrokerSettings()
    names = {RedisTransport(server_url, settings).process for _ in range(10)}
    assert len(names) == 10
