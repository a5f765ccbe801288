from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from callboard.broker.envelope import Envelope, Posting
from callboard.broker.errors import CommandError, ConnectionLostError, FencedError
from callboard.broker.mailbox import ConsumedType, Pull, Rung
from callboard.broker.outcome import Commit, DeadLetter, ErrorInfo
from callboard.broker.redis.client.identity import own_name
from callboard.broker.redis.client.lane import WorkerLane
from callboard.broker.redis.client.states import StoredState
from callboard.broker.redis.client.transport import RedisTransport
from tests.helpers.commits import Done, is_sendable
from tests.helpers.eventually import eventually
from tests.helpers.lanes import entry
from tests.unit.broker.redis.servers import WorkerDriver, driver, server_url, transport

__all__ = ["driver", "server_url", "transport"]


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
    assert prefixes == {own_name()}
    assert own_name().rpartition(":")[0] == f"{socket.gethostname()}:{os.getpid()}"
    assert epochs == [epochs[0], epochs[0] + 1, epochs[0] + 2]
    found = await transport.admin.command("HGET", transport.keys.of(f"worker:{lane.worker}"), "types")
    assert found == b"counter audit"
    lane.close()


async def test_a_worker_that_left_is_fenced(lane: WorkerLane) -> None:
    name = lane.worker
    await lane.leave()
    with pytest.raises(FencedError, match=name):
        await lane.turn((), Pull([ConsumedType("counter")], 1, 0, True, 100))
    with pytest.raises(FencedError, match=name):
        await lane.resync()
    await lane.leave()


async def test_a_new_incarnation_may_work_where_the_old_one_may_not(lane: WorkerLane) -> None:
    await lane.leave()
    await lane.join(["counter"])
    assert (await lane.turn((), Pull([ConsumedType("counter")], 1, 0, True, 100))).deliveries == []


async def test_leaving_gives_back_what_is_held(driver: WorkerDriver, lane: WorkerLane) -> None:
    await driver.publish("topic:visits", "ada", id="m1")
    (held,) = (await lane.turn((), Pull([ConsumedType("counter")], 5, 0, True, 100))).deliveries
    await lane.leave()
    (done,) = await driver.take("counter")
    assert (done.delivery.envelope.id, done.delivery.attempt) == (held.envelope.id, 1)
    await driver.finish(done)


async def test_leaving_as_crashed_counts_an_attempt(driver: WorkerDriver, lane: WorkerLane) -> None:
    await driver.publish("topic:visits", "ada")
    await lane.turn((), Pull([ConsumedType("counter")], 5, 0, True, 100))
    await lane.leave(crashed=True)
    (done,) = await driver.take("counter")
    assert done.delivery.attempt == 2
    await driver.finish(done)


# Turns


async def test_a_turn_brings_entries_and_the_time(driver: WorkerDriver, lane: WorkerLane) -> None:
    await driver.publish("topic:visits", "ada", body=b"\xff\x00", head=b"\x80", id="m1")
    turn = await lane.turn((), Pull([ConsumedType("counter")], 5, 0, True, 100))
    (delivery,) = turn.deliveries
    assert delivery.reference[:2] == (b"counter", b"topic:visits")
    assert delivery.tries == b""
    envelope = delivery.envelope
    assert (envelope.id, envelope.type, envelope.key, delivery.raw_key) == ("m1", "Visit", "ada", b"ada")
    assert (envelope.sender, envelope.kind, envelope.body) == (None, "event", b"\xff\x00")
    assert abs(envelope.at - turn.server_ms) < 60_000
    assert (turn.next_due_ms, turn.suspects_wait, turn.full_topic) == (None, False, "")
    await lane.commit_and_pull([Done(delivery, "C", ())], Pull((), 0, 0, False, 100))


async def test_a_turn_says_when_there_is_more_and_when_the_next_timer_is_due(
    driver: WorkerDriver, lane: WorkerLane
) -> None:
    for key in "abc":
        await driver.publish("topic:visits", key)
    await driver.publish("topic:visits", "later", due=50_000)
    turn = await lane.turn((), Pull([ConsumedType("counter")], 2, 0, True, 100))
    assert (len(turn.deliveries), turn.more) == (2, True)
    assert turn.next_due_ms is not None
    assert 0 < turn.next_due_ms - turn.server_ms <= 50_000


async def test_a_turn_brings_the_states_of_persistent_agents_once(
    driver: WorkerDriver, lane: WorkerLane
) -> None:
    for body in (b"1", b"2"):
        await driver.publish("topic:visits", "ada", body=body)
    pull = Pull([ConsumedType("counter", True)], 1, 0, True, 100)
    (first,) = (await lane.turn((), pull)).deliveries
    assert (first.state, first.state_version) == (b"", 0)
    await driver.transport.save_state("counter", "bob", b"saved")
    turn = await lane.commit_and_pull([Done(first, "CS", (1, b"one"))], pull)
    (second,) = turn.deliveries
    assert (second.state, second.state_version) == (None, 1), "this worker wrote it last"
    await driver.publish("topic:visits", "bob")
    (third,) = (await lane.commit_and_pull([Done(second, "C", ())], pull)).deliveries
    assert (third.state, third.state_version) == (b"saved", 1)
    assert await driver.transport.load_state("counter", "ada") == StoredState(1, b"one")
    assert await driver.transport.load_state("counter", "nobody") == StoredState()
    await lane.commit_and_pull([Done(third, "C", ())], Pull((), 0, 0, False, 100))


async def test_commits_of_several_types_and_streams_in_one_turn(driver: WorkerDriver) -> None:
    for stream in ("topic:visits", "topic:orders", "inbox:audit"):
        await driver.publish(stream, "ada")
    done = [*await driver.take_all("counter"), *await driver.take_all("audit")]
    assert len(done) >= 3
    await driver.finish(*(one for one in done if one.delivery.raw_type == b"audit"))
    await driver.finish(*(one for one in done if one.delivery.raw_type == b"counter"))
    assert await driver.lane.resync() == []


@pytest.mark.parametrize(
    "kind", ["SET", pytest.param("XADD", marks=pytest.mark.real_server("it goes on after the last id"))]
)
@pytest.mark.parametrize("due", [0, 1])
async def test_a_stream_that_takes_nothing_does_not_undo_half_of_a_turn(
    driver: WorkerDriver, kind: str, due: int
) -> None:
    """What a handler sent there becomes a dead letter; a timer for it does not stop everybody's turns."""
    admin, names = driver.transport.admin, driver.transport.keys
    more = ("no stream",) if kind == "SET" else (f"{2**64 - 1}-{2**64 - 1}", "by", "hand")
    await admin.command(kind, names.of("topic:bad"), *more)
    for key in ("ada", "bob"):
        await driver.publish("topic:visits", key)
    first, second = await driver.take("counter")
    out = (1, "topic:bad", due, "o1", "Note", "ada", "counter/ada", b"", b"out")
    await driver.finish(Done(first.delivery, "CO", out), second)

    async def is_buried() -> bool:
        await driver.finish()
        return bool(await admin.command("XLEN", names.of("dead:counter")))

    await eventually(is_buried)
    ((_, letter),) = await admin.command("XRANGE", names.of("dead:counter"), "-", "+")
    assert dict(zip(letter[::2], letter[1::2], strict=True))[b"reason"] == b"unsendable"
    assert await driver.lane.resync() == []
    assert await admin.command("EXISTS", names.of("busy:counter")) == 0
    await driver.publish("topic:visits", "ada")
    await driver.finish(*await driver.take("counter"))


async def test_a_late_copy_of_a_turn_is_refused(driver: WorkerDriver, lane: WorkerLane) -> None:
    await lane.turn((), Pull((), 0, 0, False, 100))
    lane._calls -= 1
    with pytest.raises(ConnectionLostError, match="overtaken"):
        await lane.turn((), Pull((), 0, 0, False, 100))


async def _turn(lane: WorkerLane) -> None:
    await lane.turn((), Pull((), 0, 0, False, 100))


async def _resync(lane: WorkerLane) -> None:
    await lane.resync()


@pytest.mark.parametrize("call", [_turn, _resync])
async def test_of_two_calls_under_way_only_the_one_that_was_answered_is_acknowledged(
    lane: WorkerLane, monkeypatch: pytest.MonkeyPatch, call: Callable[[WorkerLane], Awaitable[None]]
) -> None:
    """A server that knows nothing of the other would be taken for one that has lost something."""
    run = lane._link.run

    async def beside_another(name: str, arguments: Sequence[Any]) -> Any:
        lane._calls += 1
        return await run(name, arguments)

    monkeypatch.setattr(lane._link, "run", beside_another)
    await call(lane)
    assert lane.incarnation.acknowledged == lane._calls - 1


async def test_a_call_of_the_incarnation_before_is_not_acknowledged(
    lane: WorkerLane, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = lane._link.run

    async def joins_meanwhile(name: str, arguments: Sequence[Any]) -> Any:
        answer = await run(name, arguments)
        if name == "turn":
            await lane.join(["counter"])
        return answer

    monkeypatch.setattr(lane._link, "run", joins_meanwhile)
    await _turn(lane)
    assert lane.incarnation.acknowledged == 0


# After a lost connection


async def test_a_resync_tells_what_is_held_and_refuses_older_turns(
    driver: WorkerDriver, lane: WorkerLane
) -> None:
    for key in "ab":
        await driver.publish("topic:visits", key, body=key.encode())
    (kept, done) = (await lane.turn((), Pull([ConsumedType("counter")], 5, 0, True, 100))).deliveries
    await lane.commit_and_pull([Done(done, "C", ())], Pull((), 0, 1, False, 100))
    (held,) = await lane.resync()
    assert held.reference == kept.reference
    assert held.envelope.body == kept.envelope.body
    assert held.state_unknown
    lane._calls -= 1
    with pytest.raises(ConnectionLostError):
        await lane.commit_and_pull([Done(kept, "C", ())], Pull((), 0, 0, False, 100))
    (held,) = await lane.resync()
    await lane.commit_and_pull([Done(held, "C", ())], Pull((), 0, 0, False, 100))
    assert await lane.resync() == []


@pytest.mark.real_server("it lives in this process: there is no connection that could break")
async def test_a_lane_goes_on_after_its_client_was_killed(driver: WorkerDriver, lane: WorkerLane) -> None:
    await driver.publish("topic:visits", "ada")
    (delivery,) = (await lane.turn((), Pull([ConsumedType("counter")], 5, 0, True, 100))).deliveries
    await driver.transport.admin.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    await eventually(lambda: not lane._link.is_open)
    await lane.reconnect(5)
    assert [held.reference for held in await lane.resync()] == [delivery.reference]
    await lane.commit_and_pull([Done(delivery, "C", ())], Pull((), 0, 0, False, 100))


# Bells


async def test_the_bell_tells_which_type_it_was_rung_for(driver: WorkerDriver, lane: WorkerLane) -> None:
    for agent_type in ("audit", "counter"):
        await lane.ring(agent_type)
        assert await lane.wait_for_bell(["counter", "audit"], 5) == agent_type
    assert await lane.wait_for_bell(["counter", "audit"], 0.01) is None


async def test_publishing_rings_the_bell_of_every_reader(driver: WorkerDriver, lane: WorkerLane) -> None:
    waiting = asyncio.create_task(lane.wait_for_bell(["audit"], 5))
    await driver.publish("topic:visits", "ada")
    assert await waiting == "audit"
    assert await lane.wait_for_bell(["counter"], 5) == "counter"


@pytest.mark.real_server("its blocking read goes on in the background and takes the token")
async def test_a_bell_whose_connection_breaks_counts_as_perhaps_rung(
    driver: WorkerDriver, lane: WorkerLane
) -> None:
    waiting = asyncio.create_task(lane.wait_for_bell(["counter"], 30))
    await eventually(lambda: lane._bell.is_open)
    await asyncio.sleep(0)
    lane._bell.break_off("a test")
    assert await asyncio.wait_for(waiting, 5) == ""
    await lane.ring("counter")
    assert await lane.wait_for_bell(["counter"], 5) == "counter"


async def test_a_bell_that_cannot_be_rung_or_heard_breaks_nothing(
    driver: WorkerDriver, lane: WorkerLane
) -> None:
    key = driver.transport.keys.of("bell:odd")
    await driver.transport.admin.command("SET", key, "no list")
    await lane.ring("odd")
    assert await lane.wait_for_bell(["odd"], 0.01) == ""
    with pytest.raises(CommandError, match="WRONGTYPE"):
        await driver.transport.admin.command("LLEN", key)


# The turn at the bell

TAKE_ONE = Pull([ConsumedType("counter")], 1, 0, False, 1)


class HeldBack:
    """Keeps the answer of the bell's connection from a lane, as a network does that is slow.

    Attributes:
        came: it is there.
        let: it may be heard.
    """

    def __init__(self, lane: WorkerLane) -> None:
        self.came, self.let = asyncio.Event(), asyncio.Event()
        self._ask = lane._bell.run_behind
        lane._bell.run_behind = self._run_behind  # type: ignore[method-assign, assignment]

    async def _run_behind(self, *arguments: Any) -> tuple[Any, Any]:
        answers = await self._ask(*arguments)
        self.came.set()
        await self.let.wait()
        return answers


async def test_the_bell_brings_the_delivery_that_it_rang_for(driver: WorkerDriver, lane: WorkerLane) -> None:
    waiting = asyncio.create_task(lane.turn_at_bell(["counter"], 5, TAKE_ONE))
    await driver.publish("topic:visits", "ada")
    rang, turn = await waiting
    assert rang == "counter"
    assert turn is not None
    assert [delivery.raw_key for delivery in turn.deliveries] == [b"ada"]
    assert turn.asked_ms is None, "it waited: nothing is to be learned from it about clocks"
    assert lane.incarnation.acknowledged == lane._calls
    assert [held.reference for held in await lane.resync()] == [turn.deliveries[0].reference]


async def test_a_bell_that_nobody_rang_brings_an_empty_turn(driver: WorkerDriver, lane: WorkerLane) -> None:
    empty = await lane.turn_at_bell(["counter"], 0.01, TAKE_ONE)
    assert empty.agent_type is None
    assert empty.turn is not None
    assert empty.turn.deliveries == []


async def test_a_turn_that_goes_first_makes_the_one_at_the_bell_take_nothing(
    driver: WorkerDriver, lane: WorkerLane
) -> None:
    waiting = asyncio.create_task(lane.turn_at_bell(["counter"], 5, TAKE_ONE))
    await eventually(lambda: lane._at_bell)
    await asyncio.sleep(0)
    turn = await lane.turn((), TAKE_ONE)
    assert not turn.is_second
    await driver.publish("topic:visits", "ada")
    assert await waiting == Rung("counter", None)
    assert await lane.resync() == []
    (delivery,) = (await lane.turn((), TAKE_ONE)).deliveries
    assert delivery.raw_key == b"ada"


async def test_a_later_turn_says_that_the_one_at_the_bell_was_carried_out(
    driver: WorkerDriver, lane: WorkerLane
) -> None:
    held_back = HeldBack(lane)
    waiting = asyncio.create_task(lane.turn_at_bell(["counter"], 5, TAKE_ONE))
    await driver.publish("topic:visits", "ada", body=b"1")
    await held_back.came.wait()
    await driver.publish("topic:visits", "ada", body=b"2")
    second = await lane.turn((), TAKE_ONE)
    assert second.is_second
    held_back.let.set()
    first = (await waiting).turn
    assert first is not None
    assert [turn.deliveries[0].envelope.body for turn in (first, second)] == [b"1", b"2"]
    assert lane.incarnation.acknowledged == lane._calls, "that of the later turn"


async def test_a_resync_tells_what_the_bell_brought_and_its_own_answer_counts_no_more(
    driver: WorkerDriver, lane: WorkerLane
) -> None:
    held_back = HeldBack(lane)
    waiting = asyncio.create_task(lane.turn_at_bell(["counter"], 5, TAKE_ONE))
    await driver.publish("topic:visits", "ada")
    await held_back.came.wait()
    assert [held.raw_key for held in await lane.resync()] == [b"ada"]
    held_back.let.set()
    assert await waiting == Rung("counter", None)


async def test_a_new_incarnation_gets_nothing_of_the_old_ones_bell(
    driver: WorkerDriver, lane: WorkerLane
) -> None:
    held_back = HeldBack(lane)
    waiting = asyncio.create_task(lane.turn_at_bell(["counter"], 5, TAKE_ONE))
    await driver.publish("topic:visits", "ada")
    await held_back.came.wait()
    await lane.leave()
    await lane.join(["counter"])
    held_back.let.set()
    assert await waiting == Rung("counter", None)
    (delivery,) = (await lane.turn((), TAKE_ONE)).deliveries
    assert delivery.attempt == 1


async def test_a_lease_that_ended_is_told_at_the_bell(lane: WorkerLane) -> None:
    await lane.leave()
    with pytest.raises(FencedError):
        await lane.turn_at_bell(["counter"], 0.01, TAKE_ONE)


@pytest.mark.real_server("it lives in this process: there is no connection that could break")
async def test_a_turn_at_the_bell_whose_answer_is_lost_is_asked_after(
    driver: WorkerDriver, lane: WorkerLane
) -> None:
    waiting = asyncio.create_task(lane.turn_at_bell(["counter"], 5, TAKE_ONE))
    await eventually(lambda: lane._bell.is_open)
    await asyncio.sleep(0)
    lane._bell.break_off("a test")
    with pytest.raises(ConnectionLostError):
        await waiting
    assert await lane.resync() == []
    await driver.publish("topic:visits", "ada")
    assert (await lane.turn_at_bell(["counter"], 5, TAKE_ONE)).turn is not None


async def test_beside_a_turn_the_bell_is_heard_and_brings_nothing(
    driver: WorkerDriver, lane: WorkerLane
) -> None:
    for key in "ab":
        await driver.publish("topic:visits", key)
    turn = asyncio.create_task(lane.turn((), TAKE_ONE))
    await asyncio.sleep(0)
    assert await lane.turn_at_bell(["counter"], 5, TAKE_ONE) == Rung("counter", None)
    (delivery,) = (await turn).deliveries
    assert [held.reference for held in await lane.resync()] == [delivery.reference]


@pytest.mark.real_server("its library goes with the process")
async def test_a_turn_at_the_bell_of_a_server_without_functions_is_taken_later(
    driver: WorkerDriver, lane: WorkerLane
) -> None:
    await driver.transport.admin.command("FUNCTION", "FLUSH")
    assert await lane.turn_at_bell(["counter"], 0.01, TAKE_ONE) == Rung(None, None)
    assert (await lane.turn((), TAKE_ONE)).deliveries == []


async def test_a_bell_that_is_no_list_keeps_nothing_from_being_taken(
    driver: WorkerDriver, lane: WorkerLane
) -> None:
    await driver.publish("topic:visits", "ada")
    key = driver.transport.keys.of("bell:counter")
    await driver.transport.admin.command("DEL", key)
    await driver.transport.admin.command("SET", key, "no list")
    rang, turn = await lane.turn_at_bell(["counter"], 0.01, TAKE_ONE)
    assert rang == ""
    assert turn is not None
    assert len(turn.deliveries) == 1


async def test_more_types_may_be_announced(driver: WorkerDriver, lane: WorkerLane) -> None:
    await lane.announce(["counter", "audit"])
    key = driver.transport.keys.of(f"worker:{lane.worker}")
    assert await driver.transport.admin.command("HGET", key, "types") == b"counter audit"


@pytest.mark.parametrize(
    ("extras", "expected"),
    [((), True), ((b"\xff", "text", 1, 0.5), True), (("half \ud800",), False), ((None,), False)],
)
def test_what_can_be_sent(extras: tuple[str, ...], expected: bool) -> None:
    assert is_sendable(Done(entry("a", "a1"), "C", extras)) is expected


async def test_outcomes_are_encoded_by_the_lane(driver: WorkerDriver, lane: WorkerLane) -> None:
    await driver.publish("topic:visits", "a")
    pull = Pull([ConsumedType("counter")], 5, 0, True, 100)
    (delivery,) = (await lane.turn((), pull)).deliveries
    assert lane.can_send(delivery, Commit())
    assert not lane.can_send(
        delivery,
        DeadLetter(
            "failed",
            ErrorInfo("E", "no"),
            reply=Posting(Envelope("m", "half \ud800", "", None, 0, b"", "reply"), "reply:p1"),
        ),
    )
    broken_head = Posting(Envelope("m", "Note", "a", None, 0, b"", cause="half \ud800"), "topic:visits")
    assert not lane.can_send(delivery, Commit(outgoing=(broken_head,)))
    await lane.turn([(delivery, DeadLetter("failed"), True)], Pull((), 0, 0, False, 100))
    assert await lane.resync() == []
    assert await driver.transport.admin.command("XLEN", driver.transport.keys.of("dead:counter")) == 1
