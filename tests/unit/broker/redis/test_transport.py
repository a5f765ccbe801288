from __future__ import annotations

import asyncio
import os
import time

import pytest

from broker import BrokerSettings
from broker.errors import ConnectionLostError, NamespaceMismatchError, UndeliverableError
from broker.redis.lane import Done
from broker.redis.publisher import Posting
from broker.redis.transport import Declared, RedisTransport, Reply
from tests.helpers.eventually import eventually

from .servers import Bench, bench, server_url, transport

__all__ = ["bench", "server_url", "transport"]


def request(name: str, agent_type: str = "counter", key: str = "ada") -> Posting:
    return Posting(f"inbox:{agent_type}", 0, (name, "Ask", key, "", b"", b"{}"))


async def answer(bench: Bench, *, body: bytes = b"yes", head: bytes = b"") -> None:
    """Handles one request of the counter."""
    done: list[Done] = []

    async def taken() -> bool:
        done.extend(await bench.take("counter"))
        return bool(done)

    await eventually(taken)
    for one in done:
        name = one.delivery.message_id
        extras = (bench.transport.process, "", name, "Answer", "counter/ada", head, body)
        await bench.finish(Done(one.delivery, "CP", extras))


# Declaring


async def test_declaring_twice_changes_nothing(transport: RedisTransport) -> None:
    again = [Declared("counter", "topic", "visits"), Declared("counter", "topic", "orders")]
    await transport.declare({"counter": {"max_attempts": 3}}, again)
    assert await transport.admin.command("HGET", transport.keys.of("topics"), "visits") == b"counter audit"


async def test_a_namespace_that_was_made_with_other_shards_is_refused(transport: RedisTransport) -> None:
    await transport.admin.command("HSET", transport.keys.of("config"), "shards", 4)
    with pytest.raises(NamespaceMismatchError, match="has 4 shards and this process is set to 1"):
        await transport.declare({"counter": {}}, [])


async def test_a_subscription_ends_once(transport: RedisTransport) -> None:
    assert await transport.unsubscribe(Declared("audit", "topic", "visits"))
    assert not await transport.unsubscribe(Declared("audit", "topic", "visits"))
    assert await transport.admin.command("HGET", transport.keys.of("topics"), "visits") == b"counter"


# Asking


async def test_a_request_gets_its_reply(bench: Bench) -> None:
    waiting = bench.transport.ask(request("r1"))
    assert bench.transport.in_flight == 2, "the message, and the reply that is waited for"
    await answer(bench, body=b"yes", head=b"\x80")
    assert await waiting == Reply(b"Answer", b"counter/ada", b"\x80", b"yes")
    assert bench.transport.in_flight == 0


async def test_many_requests_at_once_get_their_own_replies(bench: Bench) -> None:
    waiting = {name: bench.transport.ask(request(name, key=name)) for name in "abcdef"}
    for _ in range(20):
        if all(future.done() for future in waiting.values()):
            break
        for one in await bench.take("counter"):
            name = one.delivery.message_id
            await bench.finish(
                Done(one.delivery, "CP", (bench.transport.process, "", name, "A", "", b"", name))
            )
    assert {name: (await future).body for name, future in waiting.items()} == {
        n: n.encode() for n in "abcdef"
    }


async def test_a_reply_that_nobody_waits_for_any_more_is_counted(bench: Bench) -> None:
    waiting = bench.transport.ask(request("r1"))
    bench.transport.forget("r1", waiting)
    bench.transport.forget("r1", waiting)
    await answer(bench)
    await eventually(lambda: bench.transport.late_replies == 1)
    assert not waiting.done()
    assert bench.transport.in_flight == 0


async def test_a_request_that_was_given_up_is_answered_without_harm(bench: Bench) -> None:
    waiting = bench.transport.ask(request("r1"))
    waiting.cancel()
    await answer(bench)
    second = bench.transport.ask(request("r2"))
    await answer(bench)
    assert (await second).body == b"yes"


async def test_the_same_request_may_be_waited_for_twice(bench: Bench) -> None:
    first, second = bench.transport.ask(request("r1")), bench.transport.ask(request("r1"))
    bench.transport.forget("r1", first)
    await answer(bench)
    assert (await second).body == b"yes"
    assert not first.done()


async def test_a_request_to_nobody_fails(bench: Bench) -> None:
    waiting = bench.transport.ask(request("r1", "nobody"))
    with pytest.raises(UndeliverableError, match="nobody is registered for 'nobody'"):
        await waiting
    bench.transport.forget("r1", waiting)
    assert bench.transport.in_flight == 0


async def test_what_is_no_reply_does_not_end_the_reading(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    waiting = bench.transport.ask(request("r1"))
    key = bench.transport.keys.of(f"reply:{bench.transport.process}")
    await bench.transport.admin.command("XADD", key, "*", "by", "hand")
    await answer(bench)
    assert (await waiting).body == b"yes"
    assert "has an entry that is no reply" in caplog.text


async def test_closing_fails_those_who_wait_for_a_reply(server_url: str) -> None:
    transport = RedisTransport(server_url, BrokerSettings(namespace=f"test-{os.urandom(4).hex()}"))
    await transport.declare({"counter": {}}, [])
    waiting = transport.ask(request("r1"))
    await transport.close(delete_namespace=True)
    with pytest.raises(ConnectionLostError, match="closed before the reply came"):
        await waiting


async def test_closing_leaves_no_task_and_no_connection(server_url: str) -> None:
    before = asyncio.all_tasks()
    transport = RedisTransport(server_url, BrokerSettings(namespace=f"test-{os.urandom(4).hex()}"))
    await transport.declare({"counter": {}}, [])
    transport.ask(request("r1"))
    await transport.post(Posting("topic:x", 0, ("m1", "Note", "k", "", b"", b"")))
    await transport.close(delete_namespace=True)
    assert not transport.admin.is_open
    left = asyncio.all_tasks() - before
    # A blocking read of fakeredis goes on in the background until its time is over.
    assert not [task for task in left if "fakeredis" not in repr(task)]
    await transport.close()


# States, results, names


async def test_states_are_kept_by_version(transport: RedisTransport) -> None:
    assert await transport.load_state("counter", "ada") == (0, b"")
    await transport.save_state("counter", "ada", 3, b"\xff")
    assert await transport.load_state("counter", "ada") == (3, b"\xff")
    assert await transport.stored_keys("counter") == ["ada"]


async def test_recorded_results_are_kept_by_name_and_expire(transport: RedisTransport) -> None:
    assert await transport.recorded("counter", "m1") == {}
    await transport.record("counter", "m1", "pay", b"\x01")
    await transport.record("counter", "m1", "mail", b"\x02")
    assert await transport.record("counter", "m1", "pay", b"\x03") == b"\x01", "the first one stays"
    assert await transport.recorded("counter", "m1") == {"pay": b"\x01", "mail": b"\x02"}
    left = await transport.admin.command("PTTL", transport.keys.of("once:counter:m1"))
    assert 0 < left <= 86_400_000


async def test_names_with_the_letters_of_patterns_are_found_and_no_others(transport: RedisTransport) -> None:
    for key in ("a*b", "a?b", "a[b]", "a\\b", "axb", "/", "", "é"):
        await transport.save_state("counter", key, 1, b"")
    await transport.save_state("count*", "other", 1, b"")
    assert sorted(await transport.stored_keys("counter")) == sorted(
        ["a*b", "a?b", "a[b]", "a\\b", "axb", "/", "", "é"]
    )
    assert await transport.stored_keys("count*") == ["other"]
    assert sorted(await transport.names_after(transport.keys.of("state:counter:a["))) == ["b]"]


async def test_a_namespace_is_removed_whole_and_alone(server_url: str, transport: RedisTransport) -> None:
    other = RedisTransport(server_url, BrokerSettings(namespace=transport.settings.namespace + "-2"))
    await other.save_state("counter", "kept", 1, b"kept")
    for number in range(600):
        await transport.save_state("counter", f"k{number}", 1, b"")
    await transport.admin.command(
        "RPUSH", transport.keys.prefix.encode() + b"wait:counter:\xff\xfe", "by hand"
    )
    assert "wait:counter:\ufffd\ufffd" in await transport.names_after(transport.keys.prefix)
    await transport.delete_namespace()
    assert await transport.names_after(transport.keys.prefix) == []
    assert await other.load_state("counter", "kept") == (1, b"kept")
    await other.close(delete_namespace=True)


# The rest


async def test_a_full_topic_is_warned_of_once(server_url: str, caplog: pytest.LogCaptureFixture) -> None:
    settings = BrokerSettings(namespace=f"test-{os.urandom(4).hex()}", max_unclaimed=5)
    transport = RedisTransport(server_url, settings)
    for number in range(3):
        notes = [Posting("topic:unread", 0, (f"{number}-{n}", "Note", "k", "", b"", b"")) for n in range(200)]
        await asyncio.gather(*(transport.post(one) for one in notes))
    assert (
        caplog.text.count("nobody subscribes to the topic 'unread': only its newest 5 messages are kept") == 1
    )
    await transport.close(delete_namespace=True)


async def test_idle_tells_what_is_to_be_done(bench: Bench) -> None:
    quiet = await bench.transport.idle()
    assert quiet[:3] == (0, 0, 0)
    await bench.publish("topic:orders", "ada")
    unread = await bench.transport.idle()
    assert unread[0] == 1
    assert unread[3] != quiet[3], "the mark of the last message"
    held = await bench.take("counter")
    assert (await bench.transport.idle())[:2] == (0, 1)
    await bench.finish(*held)
    assert (await bench.transport.idle())[:3] == (0, 0, 0)


def test_the_servers_clock_is_followed() -> None:
    transport = RedisTransport("redis://127.0.0.1:1", BrokerSettings())
    assert abs(transport.now_ms() - time.time() * 1000) < 1000
    transport.observe_clock(int(time.time() * 1000) - 3_600_000)
    assert abs(transport.now_ms() - (time.time() * 1000 - 3_600_000)) < 1000


async def test_every_process_and_transport_has_its_own_stream_of_replies(server_url: str) -> None:
    settings = BrokerSettings()
    names = {RedisTransport(server_url, settings).process for _ in range(10)}
    assert len(names) == 10
