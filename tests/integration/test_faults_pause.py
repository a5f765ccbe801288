"""Workers that stand still: stopped processes lose their lease, blocked event loops do not."""

from __future__ import annotations

import asyncio
import signal

from callboard import TopicId
from tests.helpers.eventually import eventually
from tests.helpers.jobs import Purchase
from tests.helpers.worker_fleet import WorkerFleet

LEASE = 1.0  # seconds, see SHORT_LEASE
RUNNING = (
    2.0  # seconds: a handler still runs when all have begun, and would have ended when its process goes on
)


async def test_a_worker_that_was_stopped_for_three_leases_is_refused_says_so_and_goes_on(
    fleet: WorkerFleet,
) -> None:
    paused = await fleet.ready_worker("job")
    for number in range(8):
        await fleet.publish(f"k{number}", seconds=RUNNING)
    await eventually(lambda: len(fleet.ledger.executions()) == 8)
    paused.signal(signal.SIGSTOP)
    await fleet.ready_worker("job", environ={"PACE": "0"})
    await fleet.effects(8)
    await asyncio.sleep(3 * LEASE - 1)  # it is the length of the stop that is tested here
    paused.signal(signal.SIGCONT)
    await eventually(lambda: len(paused.lines("fenced")) >= 8, what=paused.output)
    await fleet.publish_many(100, keys=50, seconds=0.05)
    await fleet.effects(108)
    await fleet.settled()
    fleet.ledger.check("job", fleet.published)
    assert len(paused.lines("fenced")) == 8, "once for each activation"
    assert len(set(paused.lines("fenced"))) == 8
    assert paused.is_alive
    later = [one.pid for one in fleet.ledger.executions()[16:]]
    assert paused.pid in later, "it works again"


async def test_what_a_stopped_handler_does_after_others_committed_its_message_does_not_count(
    fleet: WorkerFleet,
) -> None:
    """Stopped between a step and a request: the request, the next step and the event were all made by then."""
    await fleet.ready_worker("till")
    paused = await fleet.ready_worker("payer")
    for number in range(4):
        purchase = Purchase(seq=0, seconds=RUNNING)
        await fleet.publisher.publish_message(purchase, TopicId("purchases", f"k{number}"))
    await eventually(lambda: len(fleet.ledger.executions("order")) == 4)
    paused.signal(signal.SIGSTOP)
    await fleet.ready_worker("payer", environ={"PACE": "0"})
    await fleet.effects(4)
    await fleet.settled("payer", "till")
    await asyncio.sleep(RUNNING)  # its handlers are to go on at once when it does
    paused.signal(signal.SIGCONT)
    await eventually(lambda: len(paused.lines("fenced")) >= 4, what=paused.output)
    await fleet.settled("payer", "till")
    counted = {what: len(fleet.ledger.executions(what)) for what in ("order", "charge", "mail", "end")}
    assert counted == {"order": 4, "charge": 4, "mail": 4, "end": 4}
    assert [effect.total for effect in fleet.ledger.effects()] == [1] * 4


async def test_stopping_and_continuing_again_and_again_under_load(fleet: WorkerFleet) -> None:
    victim = await fleet.ready_worker("job")
    await fleet.ready_worker("job")
    publishing = asyncio.create_task(_publish_slowly(fleet, 300))
    for _ in range(3):
        victim.signal(signal.SIGSTOP)
        await asyncio.sleep(1.6 * LEASE)
        victim.signal(signal.SIGCONT)
        await asyncio.sleep(0.4 * LEASE)
    await publishing
    await fleet.effects(300, within=20)
    await fleet.settled()
    fleet.ledger.check("job", fleet.published)


async def _publish_slowly(fleet: WorkerFleet, count: int) -> None:
    for number in range(count):
        await fleet.publish(f"k{number % 20}", seconds=0.05)
        await asyncio.sleep(0.015)


async def test_a_handler_that_blocks_the_event_loop_for_two_leases_is_not_run_again(
    fleet: WorkerFleet,
) -> None:
    first = await fleet.ready_worker("job")
    await fleet.publish("a", "block", 2 * LEASE)
    await eventually(lambda: len(fleet.ledger.executions()) == 1)
    await fleet.publish("a", seconds=0.0)
    await fleet.ready_worker("job")
    await fleet.effects(2)
    await fleet.settled()
    fleet.ledger.check("job", fleet.published)
    executions = [(one.seq, one.attempt) for one in fleet.ledger.executions()]
    assert executions == [(0, 1), (1, 1)]
    assert fleet.ledger.executions()[0].pid == first.pid
    assert not first.lines("fenced")
