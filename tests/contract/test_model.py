"""Any sequence of publishing, taking, committing, dying and trimming, against a model that fits on a page.

The model: for each agent key a list of numbers that are to be handled in order, and who holds the key.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    rule,
    run_state_machine_as_test,
)

from broker import BrokerSettings
from broker.delivery import Delivery
from broker.errors import FencedError
from broker.redis.lane import Done
from tests.helpers.rig import Rig, RigWorker, posting, topic
from tests.helpers.servers import ServerProcess, best_kind

STREAMS = ("topic:visits", "topic:orders", "inbox:counter")
KEYS = ("a", "b", "c", "d")
LIMIT = 5  # attempts
LONGEST_DRAIN = 400  # turns


class Delivering(RuleBasedStateMachine):
    """The scripts on one side, the model on the other."""

    url = ""

    workers = Bundle("workers")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.rig = Rig(self.url, BrokerSettings(namespace=f"model-{os.urandom(4).hex()}"))
        self.do(self.rig.declare(topic("counter", "visits"), topic("counter", "orders"), max_attempts=LIMIT))
        self.to_do: dict[str, list[int]] = {key: [] for key in KEYS}
        self.holder: dict[str, RigWorker] = {}
        self.attempts: Counter[tuple[str, int]] = Counter()
        self.dead: set[tuple[str, int]] = set()
        self.alive: list[RigWorker] = []
        self.number = 0

    def do(self, work: Any) -> Any:
        return self.runner.run(work)

    # What can happen

    @rule(target=workers)
    def join(self) -> RigWorker:
        return self.new_worker()

    def new_worker(self) -> RigWorker:
        worker: RigWorker = self.do(self.rig.worker("counter"))
        self.alive.append(worker)
        return worker

    @rule(sends=st.lists(st.tuples(st.sampled_from(STREAMS), st.sampled_from(KEYS)), min_size=1, max_size=12))
    def publish(self, sends: list[tuple[str, str]]) -> None:
        batch = []
        for stream, key in sends:
            batch.append(posting(stream, key, str(self.number)))
            self.to_do[key].append(self.number)
            self.number += 1
        self.do(self.rig.publish(*batch))

    @rule(worker=workers, count=st.integers(1, 6))
    def take(self, worker: RigWorker, count: int) -> None:
        if worker in self.alive:
            self.given(worker, self.do(worker.take(count)))

    @rule(worker=workers, how=st.sampled_from("CDRL"), key=st.sampled_from(KEYS), accept=st.booleans())
    def finish(self, worker: RigWorker, how: str, key: str, accept: bool) -> None:
        held = [one for one in worker.held if one.raw_key == key.encode()]
        if worker not in self.alive or not held:
            return
        first, number = held[0], int(held[0].body)
        if how in "CD":
            mode = how + ("M" if len(held) > 1 else "") + ("T" if first.tries and how == "C" else "")
            done = [Done(first, mode, ("failed", "", "", first.attempt, "") if how == "D" else ())]
            assert self.to_do[key].pop(0) == number
            if how == "D":
                self.dead.add((key, number))
            if len(held) == 1:
                del self.holder[key]
        else:
            extras = (1, first.attempt, first.first_tried, "no") if how == "R" else ()
            done = [Done(first, how, extras), *(Done(one, "L", ()) for one in held[1:])]
            self.attempts[key, number] += how == "R"
            del self.holder[key]
        self.given(worker, self.do(worker.turn(*done, accept=accept)).deliveries)

    @rule(worker=consumes(workers))
    def die(self, worker: RigWorker) -> None:
        if worker not in self.alive:
            return
        self.alive.remove(worker)
        for key in [key for key, holder in self.holder.items() if holder is worker]:
            del self.holder[key]
            number = self.to_do[key][0]
            self.attempts[key, number] += 1
            if self.attempts[key, number] >= LIMIT:
                self.dead.add((key, self.to_do[key].pop(0)))
        if self.alive:
            self.do(self.rig.expire(worker))
            self.do(self.alive[0].beat(retain=0))
        else:
            self.do(self.rig.run("leave", "1", "1", worker.name))
        self.check_fenced(worker)

    @rule(worker=consumes(workers))
    def leave(self, worker: RigWorker) -> None:
        if worker not in self.alive:
            return
        self.alive.remove(worker)
        for key in [key for key, holder in self.holder.items() if holder is worker]:
            del self.holder[key]
        self.do(worker.lane.leave())
        self.check_fenced(worker)

    @rule(worker=workers)
    def beat(self, worker: RigWorker) -> None:
        if worker in self.alive:
            self.do(worker.beat(retain=0))

    @rule(stream=st.sampled_from(STREAMS))
    def lose_a_group(self, stream: str) -> None:
        name = self.rig.transport.keys.of(stream)
        if self.do(self.rig.command("EXISTS", stream)):
            self.do(self.rig.transport.admin.command("XGROUP", "DESTROY", name, "counter"))

    @rule(worker=workers)
    def ask_what_is_held(self, worker: RigWorker) -> None:
        if worker in self.alive:
            held = self.do(worker.lane.resync())
            assert {one.reference for one in held} == {one.reference for one in worker.held}

    # What must hold

    def given(self, worker: RigWorker, deliveries: list[Delivery]) -> None:
        """What a worker holds of a key is the beginning of what is to be done, and nobody else holds the key."""
        for one in deliveries:
            key = one.raw_key.decode()
            assert self.holder.setdefault(key, worker) is worker
            assert one.attempt == self.attempts[key, int(one.body)] + 1
        for key in {one.raw_key.decode() for one in deliveries}:
            held = [int(one.body) for one in worker.held if one.raw_key == key.encode()]
            assert held == self.to_do[key][: len(held)]

    def check_fenced(self, worker: RigWorker) -> None:
        try:
            self.do(worker.finish_all())
        except FencedError:
            return
        raise AssertionError("a dead worker could commit")

    @invariant()
    def busy_says_who_holds_what(self) -> None:
        busy = self.do(self.rig.mapping("busy:counter"))
        assert {key: name for key, name in busy.items() if name} == {
            key: worker.name for key, worker in self.holder.items()
        }

    def teardown(self) -> None:
        try:
            self.drain()
        finally:
            self.do(self.rig.close())
            self.runner.close()

    def drain(self) -> None:
        """Whatever happened: a last worker finishes everything, in order."""
        for worker in list(self.alive):
            self.leave(worker)
        last = self.new_worker()
        for _ in range(LONGEST_DRAIN):
            if not any(self.to_do.values()):
                break
            self.take(last, 6)
            for key in {one.raw_key.decode() for one in last.held}:
                self.finish(last, "C", key, True)
        assert self.to_do == {key: [] for key in KEYS}, "lost"
        self.take(last, 6)
        assert last.held == []
        self.do(self.rig.check_empty("counter"))
        letters = self.do(self.rig.letters("counter"))
        assert {(one["key"].decode(), int(one["body"])) for one in letters} == self.dead
        assert len(letters) == len(self.dead)


@pytest.mark.slow
def test_no_sequence_breaks_the_promise() -> None:
    examples = int(os.environ.get("MODEL_EXAMPLES", "150"))
    with ServerProcess(best_kind()) as server:
        Delivering.url = server.url
        run_state_machine_as_test(
            Delivering,
            settings=settings(
                max_examples=examples,
                stateful_step_count=40,
                deadline=None,
                suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
            ),
        )
