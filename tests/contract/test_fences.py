"""What a handler sends before its commit, and what it records, is refused once its worker does not hold the message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from callboard.broker.envelope import Claim, Delivery
from callboard.broker.errors import FencedError
from callboard.broker.redis.client.publisher import message_values
from callboard.broker.redis.library import Mark
from tests.helpers.commits import Done
from tests.helpers.server_driver import DrivenWorker, ServerDriver, bodies, posting, topic

Loss = Callable[[ServerDriver, DrivenWorker, Delivery], Awaitable[object]]


async def _commit(driver: ServerDriver, worker: DrivenWorker, delivery: Delivery) -> None:
    await worker.turn(Done(delivery, Mark.COMMIT + Mark.FORGET, (delivery.envelope.id,)))


async def _release(driver: ServerDriver, worker: DrivenWorker, delivery: Delivery) -> None:
    await worker.turn(Done(delivery, Mark.RELEASE, ()))


async def _expire(driver: ServerDriver, worker: DrivenWorker, delivery: Delivery) -> None:
    other = await driver.worker("counter")
    await driver.expire(worker)
    await other.beat()


async def _leave(driver: ServerDriver, worker: DrivenWorker, delivery: Delivery) -> None:
    await driver.run("leave", "1", "1", worker.name)


@pytest.fixture(
    params=[_commit, _release, _expire, _leave], ids=["committed", "given back", "reaped", "left"]
)
def lose(request: pytest.FixtureRequest) -> Loss:
    """A way in which a worker comes to hold a message no more."""
    loss: Loss = request.param
    return loss


async def _held(driver: ServerDriver) -> tuple[DrivenWorker, Delivery]:
    await driver.declare(topic("counter", "visits"), types=["clerk"])
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    (delivery,) = await worker.take()
    return worker, delivery


async def test_messages_of_a_handler_are_refused_and_those_beside_them_are_not(
    driver: ServerDriver, lose: Loss
) -> None:
    worker, delivery = await _held(driver)
    scope = f">counter:{delivery.envelope.id}"
    first = posting("inbox:clerk", "a", "first", idempotency_id=f"{scope}|1", fence=delivery.fence)
    assert await driver.publish(first) == [True]
    await lose(driver, worker, delivery)
    late = posting("inbox:clerk", "a", "late", idempotency_id=f"{scope}|2", waiting="p", fence=delivery.fence)
    chosen = posting("inbox:clerk", "a", "chosen", idempotency_id="order-1", fence=delivery.fence)
    outside = posting("inbox:clerk", "a", "outside")
    futures = [driver.transport.publisher.post(one) for one in (late, outside, chosen)]
    for refused in (futures[0], futures[2]):
        with pytest.raises(FencedError, match=worker.name):
            await refused
    assert await futures[1]
    found = [entry["body"] for entry in await driver.entries("inbox:clerk")]
    assert found == [b"first", b"outside"]
    names = await driver.snapshot()
    assert f"call:{late.envelope.id}" not in names, "nobody waits for a reply"
    assert "dedupe" not in names, "another one may send it"


async def test_records_of_a_handler_are_refused_and_not_found(driver: ServerDriver, lose: Loss) -> None:
    worker, delivery = await _held(driver)
    step = (delivery.fence, "counter", delivery.envelope.id)
    transport = driver.transport
    assert await transport.recorded(*step, "pay") is None
    await transport.record(*step, "pay", b"receipt")
    assert await transport.recorded(*step, "pay") == b"receipt"
    await lose(driver, worker, delivery)
    before = await driver.snapshot()
    for work in (transport.recorded(*step, "mail"), transport.record(*step, "mail", b"sent")):
        with pytest.raises(FencedError, match=worker.name):
            await work
    after = await driver.snapshot()
    assert after == before, "nothing is written"


async def test_orders_of_a_handler_are_refused(driver: ServerDriver, lose: Loss) -> None:
    worker, delivery = await _held(driver)
    order, transport = ("key", "clerk/a", "team"), driver.transport
    assert await transport.order("pause", *order, "now", fence=delivery.fence)
    await lose(driver, worker, delivery)
    before = await driver.snapshot()
    for late in (("resume", *order, ""), ("pause", "key", "clerk/b", "team", "now")):
        with pytest.raises(FencedError, match=worker.name):
            await transport.order(*late, fence=delivery.fence)
    assert await driver.snapshot() == before, "nothing is written"
    assert await transport.order("resume", *order), "from outside"


async def test_a_message_that_comes_again_to_the_same_worker_is_its_own_again(driver: ServerDriver) -> None:
    worker, delivery = await _held(driver)
    await worker.turn(Done(delivery, Mark.RELEASE, ()))
    (again,) = await worker.take()
    assert again.fence == delivery.fence
    assert await driver.publish(posting("inbox:clerk", "a", "x", fence=again.fence)) == [True]


async def test_what_is_held_after_a_lost_answer_can_be_sent_from(driver: ServerDriver) -> None:
    worker, delivery = await _held(driver)
    (found,) = await worker.lane.resync()
    assert found.fence == delivery.fence
    assert await driver.publish(posting("inbox:clerk", "a", "x", fence=found.fence)) == [True]


async def test_fences_and_large_bodies_in_one_batch(driver: ServerDriver) -> None:
    """Both follow the messages."""
    worker, delivery = await _held(driver)
    claim = Claim("blob:big", b"x" * 500)
    big = posting("inbox:clerk", "a", claim.pointer, claim=claim, fence=delivery.fence)
    stranger = delivery.fence._replace(worker="host:1:0")
    futures = [
        driver.transport.publisher.post(one)
        for one in (posting("inbox:clerk", "a", "1", fence=stranger), big, posting("inbox:clerk", "a", "3"))
    ]
    with pytest.raises(FencedError, match="host:1:0"):
        await futures[0]
    assert [await future for future in futures[1:]] == [True, True]
    clerk = await driver.worker("clerk")
    assert bodies(await clerk.take()) == [claim.pointer.decode(), "3"]
    assert (await driver.mapping("blob:big"))["body"] == "x" * 500
    assert worker.held == [delivery]


async def test_a_fenced_message_takes_no_room(driver: ServerDriver) -> None:
    """It is refused before anything else is asked."""
    _, delivery = await _held(driver)
    lost = posting("inbox:clerk", "a", "x", fence=delivery.fence._replace(worker="host:1:0"))
    limited = (1, "60000 1000 1 0", 2, 1)
    values = message_values([lost, posting("inbox:clerk", "a", "y")])
    answer = await driver.run("publish", "p", *limited, *values, 0, *(lost.fence or ()))
    assert [int(answer[2]), *answer[3:]] == [0, b"fenced"], "the other one found room"
