from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator

import pytest

from broker.errors import CommandError, ConnectionLostError, FencedError
from broker.redis.lane import Done, Want, WorkerLane, is_sendable
from broker.redis.transport import RedisTransport
from tests.helpers.eventually import eventually
from tests.helpers.lanes import entry

from .servers import Bench, bench, server_url, transport

__all__ = ["bench", "server_url", "transport"]


@pytest.fixture
async def lane(transport: RedisTransport) -> AsyncIterator[WorkerLane]:
    """A second worker, for the counter only."""
    made = transport.lane()
    await made.join(["counter"])
    yield made
    made.close()


# Incarnations


async def test_every_incarnation_has_a_name_that_only_rises(transport: RedisTransport) -> None:
    lane = transport.lane()
    names = []
    for _ in range(3):
        await lane.join(["counter", "audit"])
        names.append(lane.worker)
    prefixes, epochs = (
        {name.rpartition(":")[0] for name in names},
        [int(name.rpartition(":")[2]) for name in names],
    )
    assert prefixes == {f"{socket.gethostname()}:{os.getpid()}"}
    assert epochs == [epochs[0], epochs[0] + 1, epochs[0] + 2]
    found = await transport.admin.command("HGET", transport.keys.of(f"worker:{lane.worker}"), "types")
    assert found == b"counter audit"
    lane.close()


async def test_a_worker_that_left_is_fenced(lane: WorkerLane) -> None:
    name = lane.worker
    await lane.leave()
    with pytest.raises(FencedError, match=name):
        await lane.turn((), [Want("counter", 1, False)], 0, True, True)
    with pytest.raises(FencedError, match=name):
        await lane.resync()
    await lane.leave()


async def test_a_new_incarnation_may_work_where_the_old_one_may_not(lane: WorkerLane) -> None:
    await lane.leave()
    await lane.join(["counter"])
    assert (await lane.turn((), [Want("counter", 1, False)], 0, True, True)).deliveries == []


async def test_leaving_gives_back_what_is_held(bench: Bench, lane: WorkerLane) -> None:
    await bench.publish("topic:visits", "ada", id="m1")
    (held,) = (await lane.turn((), [Want("counter", 5, False)], 0, True, True)).deliveries
    await lane.leave()
    (done,) = await bench.take("counter")
    assert (done.delivery.message_id, done.delivery.attempt) == (held.message_id, 1)
    await bench.finish(done)


async def test_leaving_as_crashed_counts_an_attempt(bench: Bench, lane: WorkerLane) -> None:
    await bench.publish("topic:visits", "ada")
    await lane.turn((), [Want("counter", 5, False)], 0, True, True)
    await lane.leave(crashed=True)
    (done,) = await bench.take("counter")
    assert done.delivery.attempt == 2
    await bench.finish(done)


# Turns


async def test_a_turn_brings_entries_and_the_time(bench: Bench, lane: WorkerLane) -> None:
    await bench.publish("topic:visits", "ada", body=b"\xff\x00", head=b"\x80", id="m1")
    turn = await lane.turn((), [Want("counter", 5, False)], 0, True, True)
    (delivery,) = turn.deliveries
    assert delivery.reference[:2] == (b"counter", b"topic:visits")
    assert delivery.tries == b""
    assert (delivery.message_id, delivery.message_type, delivery.raw_key) == (b"m1", b"Visit", b"ada")
    assert (delivery.sender, delivery.head, delivery.body) == (b"", b"\x80", b"\xff\x00")
    assert abs(int(delivery.at) - turn.server_ms) < 60_000
    assert (turn.next_due_ms, turn.suspects_wait, turn.full_topic) == (None, False, "")
    await lane.turn([Done(delivery, "C", ())], (), 0, False, True)


async def test_a_turn_says_when_there_is_more_and_when_the_next_timer_is_due(
    bench: Bench, lane: WorkerLane
) -> None:
    for key in "abc":
        await bench.publish("topic:visits", key)
    await bench.publish("topic:visits", "later", due=50_000)
    turn = await lane.turn((), [Want("counter", 2, False)], 0, True, True)
    assert (len(turn.deliveries), turn.more) == (2, True)
    assert turn.next_due_ms is not None
    assert 0 < turn.next_due_ms - turn.server_ms <= 50_000


async def test_a_turn_brings_the_states_of_persistent_agents_once(bench: Bench, lane: WorkerLane) -> None:
    for body in (b"1", b"2"):
        await bench.publish("topic:visits", "ada", body=body)
    want = [Want("counter", 1, True)]
    (first,) = (await lane.turn((), want, 0, True, True)).deliveries
    assert (first.state, first.state_version) == (b"", 0)
    await bench.transport.save_state("counter", "bob", 7, b"saved")
    turn = await lane.turn([Done(first, "CS", (1, b"one"))], want, 0, True, True)
    (second,) = turn.deliveries
    assert (second.state, second.state_version) == (None, 1), "this worker wrote it last"
    await bench.publish("topic:visits", "bob")
    (third,) = (await lane.turn([Done(second, "C", ())], want, 0, True, True)).deliveries
    assert (third.state, third.state_version) == (b"saved", 7)
    assert await bench.transport.load_state("counter", "ada") == (1, b"one")
    assert await bench.transport.load_state("counter", "nobody") == (0, b"")
    await lane.turn([Done(third, "C", ())], (), 0, False, True)


async def test_commits_of_several_types_and_streams_in_one_turn(bench: Bench) -> None:
    for stream in ("topic:visits", "topic:orders", "inbox:audit"):
        await bench.publish(stream, "ada")
    done = [*await bench.take_all("counter"), *await bench.take_all("audit")]
    assert len(done) >= 3
    await bench.finish(*(one for one in done if one.delivery.raw_type == b"audit"))
    await bench.finish(*(one for one in done if one.delivery.raw_type == b"counter"))
    assert await bench.lane.resync() == []


@pytest.mark.parametrize(
    "kind", ["SET", pytest.param("XADD", marks=pytest.mark.real_server("it goes on after the last id"))]
)
@pytest.mark.parametrize("due", [0, 1])
async def test_a_stream_that_takes_nothing_does_not_undo_half_of_a_turn(
    bench: Bench, kind: str, due: int
) -> None:
    """What a handler sent there becomes a dead letter; a timer for it does not stop everybody's turns."""
    admin, names = bench.transport.admin, bench.transport.keys
    more = ("no stream",) if kind == "SET" else (f"{2**64 - 1}-{2**64 - 1}", "by", "hand")
    await admin.command(kind, names.of("topic:bad"), *more)
    for key in ("ada", "bob"):
        await bench.publish("topic:visits", key)
    first, second = await bench.take("counter")
    out = (1, "topic:bad", due, "o1", "Note", "ada", "counter/ada", b"", b"out")
    await bench.finish(Done(first.delivery, "CO", out), second)

    async def is_buried() -> bool:
        await bench.finish()
        return bool(await admin.command("XLEN", names.of("dead:counter")))

    await eventually(is_buried)
    ((_, letter),) = await admin.command("XRANGE", names.of("dead:counter"), "-", "+")
    assert dict(zip(letter[::2], letter[1::2], strict=True))[b"reason"] == b"unsendable"
    assert await bench.lane.resync() == []
    assert await admin.command("EXISTS", names.of("busy:counter")) == 0
    await bench.publish("topic:visits", "ada")
    await bench.finish(*await bench.take("counter"))


async def test_a_late_copy_of_a_turn_is_refused(bench: Bench, lane: WorkerLane) -> None:
    await lane.turn((), (), 0, False, True)
    lane._calls -= 1
    with pytest.raises(ConnectionLostError, match="overtaken"):
        await lane.turn((), (), 0, False, True)


# After a lost connection


async def test_a_resync_tells_what_is_held_and_refuses_older_turns(bench: Bench, lane: WorkerLane) -> None:
    for key in "ab":
        await bench.publish("topic:visits", key, body=key.encode())
    (kept, done) = (await lane.turn((), [Want("counter", 5, False)], 0, True, True)).deliveries
    await lane.turn([Done(done, "C", ())], (), 1, False, True)
    (held,) = await lane.resync()
    assert held.reference == kept.reference
    assert held.body == kept.body
    assert held.state_unknown
    lane._calls -= 1
    with pytest.raises(ConnectionLostError):
        await lane.turn([Done(kept, "C", ())], (), 0, False, True)
    (held,) = await lane.resync()
    await lane.turn([Done(held, "C", ())], (), 0, False, True)
    assert await lane.resync() == []


@pytest.mark.real_server("it lives in this process: there is no connection that could break")
async def test_a_lane_goes_on_after_its_client_was_killed(bench: Bench, lane: WorkerLane) -> None:
    await bench.publish("topic:visits", "ada")
    (delivery,) = (await lane.turn((), [Want("counter", 5, False)], 0, True, True)).deliveries
    await bench.transport.admin.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    await eventually(lambda: not lane._link.is_open)
    await lane.reconnect(5)
    assert [held.reference for held in await lane.resync()] == [delivery.reference]
    await lane.turn([Done(delivery, "C", ())], (), 0, False, True)


# Bells


async def test_the_bell_tells_which_type_it_was_rung_for(bench: Bench, lane: WorkerLane) -> None:
    for agent_type in ("audit", "counter"):
        await lane.ring(agent_type)
        assert await lane.wait_for_bell(["counter", "audit"], 5) == agent_type
    assert await lane.wait_for_bell(["counter", "audit"], 0.01) is None


async def test_publishing_rings_the_bell_of_every_reader(bench: Bench, lane: WorkerLane) -> None:
    waiting = asyncio.create_task(lane.wait_for_bell(["audit"], 5))
    await bench.publish("topic:visits", "ada")
    assert await waiting == "audit"
    assert await lane.wait_for_bell(["counter"], 5) == "counter"


@pytest.mark.real_server("its blocking read goes on in the background and takes the token")
async def test_a_bell_whose_connection_breaks_counts_as_perhaps_rung(bench: Bench, lane: WorkerLane) -> None:
    waiting = asyncio.create_task(lane.wait_for_bell(["counter"], 30))
    await eventually(lambda: lane._bell.is_open)
    await asyncio.sleep(0)
    lane._bell.break_off("a test")
    assert await asyncio.wait_for(waiting, 5) == ""
    await lane.ring("counter")
    assert await lane.wait_for_bell(["counter"], 5) == "counter"


async def test_a_bell_that_cannot_be_rung_or_heard_breaks_nothing(bench: Bench, lane: WorkerLane) -> None:
    key = bench.transport.keys.of("bell:odd")
    await bench.transport.admin.command("SET", key, "no list")
    await lane.ring("odd")
    assert await lane.wait_for_bell(["odd"], 0.01) == ""
    with pytest.raises(CommandError, match="WRONGTYPE"):
        await bench.transport.admin.command("LLEN", key)


async def test_more_types_may_be_announced(bench: Bench, lane: WorkerLane) -> None:
    await lane.announce(["counter", "audit"])
    key = bench.transport.keys.of(f"worker:{lane.worker}")
    assert await bench.transport.admin.command("HGET", key, "types") == b"counter audit"


@pytest.mark.parametrize(
    ("extras", "expected"),
    [((), True), ((b"\xff", "text", 1, 0.5), True), (("half \ud800",), False), ((None,), False)],
)
def test_what_can_be_sent(extras: tuple[str, ...], expected: bool) -> None:
    assert is_sendable(Done(entry("a", "a1"), "C", extras)) is expected
