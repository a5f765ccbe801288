"""A replica that is behind takes over while workers live: what was in the tail is gone, all else is done once, in order."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
import redis

from tests.helpers.eventually import eventually
from tests.helpers.forwarder import Forwarder
from tests.helpers.ledger import Ledger
from tests.helpers.servers import ServerProcess
from tests.helpers.worker_fleet import WorkerFleet

KEYS = 12


class Pair:
    """A primary and its replica, the address that clients know, and the line on which the replica follows."""

    def __init__(self, primary: ServerProcess, replica: ServerProcess, address: Forwarder, line: Forwarder):
        self.primary = primary
        self.replica = replica
        self.address = address
        self._line = line
        self.old: Any = redis.Redis.from_url(primary.url)
        self.new: Any = redis.Redis.from_url(replica.url)

    async def begin(self) -> None:
        """The replica has all that there is, and follows."""
        self.new.replicaof("127.0.0.1", self._line.port)
        await eventually(lambda: self.new.info("replication").get("master_link_status") == "up", within=30)

    def lag(self) -> None:
        """From now on the replica gets nothing of what the primary acknowledges."""
        self._line.is_silent = True

    def promote(self, *, kill: bool) -> None:
        """The replica takes over; the old primary is dead, or is its replica and goes on to answer."""
        if kill:
            self.primary.kill()
        self.new.replicaof("NO", "ONE")
        self.address.target = self.replica.port
        if not kill:
            self.old.replicaof("127.0.0.1", self.replica.port)

    def close(self) -> None:
        self.old.close()
        self.new.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    with (
        ServerProcess(access="tcp", options=("--repl-diskless-sync-delay", "0")) as primary,
        ServerProcess(access="tcp") as replica,
        Forwarder(primary.port) as address,
        Forwarder(primary.port) as line,
    ):
        made = Pair(primary, replica, address, line)
        yield made
        made.close()


@pytest.fixture
async def fleet(pair: Pair, tmp_path: Path) -> AsyncIterator[WorkerFleet]:
    made = WorkerFleet(pair.address.url, f"failover-{os.urandom(4).hex()}", tmp_path / "ledger")
    await made.open()
    await pair.begin()
    yield made
    await made.close()


def _still_there(pair: Pair, namespace: str) -> dict[str, list[int]]:
    """The jobs that the new primary has, in their order, by agent key."""
    jobs: dict[str, list[int]] = defaultdict(list)
    for _, fields in pair.new.xrange(f"callboard:{{{namespace}}}:topic:jobs"):
        jobs[fields[b"key"].decode()].append(msgpack.unpackb(fields[b"body"])["seq"])
    return jobs


def _check(pair: Pair, ledger: Ledger, namespace: str) -> None:
    """Every job that the server has was done once, in order, with its effect, its state and its acknowledgement."""
    done: dict[str, list[int]] = defaultdict(list)
    for effect in ledger.effects():
        done[effect.key].append(effect.seq)
        assert effect.total == len(done[effect.key]), "an effect without the state of its commit"
    jobs = _still_there(pair, namespace)
    assert done == jobs
    assert {key: ledger.total("job", key) for key in jobs} == {key: len(seqs) for key, seqs in jobs.items()}
    assert ledger.left_over("job") == []
    assert ledger.letters("job") == []


@pytest.mark.parametrize(
    ("workers", "kill"),
    [
        pytest.param(1, True, id="one worker, the primary dies"),
        pytest.param(2, True, id="two workers, the primary dies"),
        pytest.param(2, False, id="two workers, the primary is demoted"),
    ],
)
async def test_a_lagging_replica_takes_over(pair: Pair, fleet: WorkerFleet, workers: int, kill: bool) -> None:
    started = [await fleet.ready_worker("job") for _ in range(workers)]
    await fleet.publish_many(150, KEYS, seconds=0.02)
    await fleet.effects(30)
    pair.lag()
    before = fleet.ledger.count()
    await fleet.publish_many(50, KEYS)
    await fleet.effects(before + 40)
    pair.promote(kill=kill)
    ledger = Ledger(pair.replica.url, fleet.namespace, fleet.ledger.file)
    lost = 200 - sum(map(len, _still_there(pair, fleet.namespace).values()))
    assert lost >= 50, "the tail was not lost"
    await fleet.publish_many(50, KEYS)
    await eventually(
        lambda: ledger.count() >= 250 - lost, within=30, what=lambda: [one.output() for one in started]
    )
    await eventually(lambda: not ledger.left_over("job"), what=lambda: ledger.left_over("job"))
    _check(pair, ledger, fleet.namespace)
    assert all(worker.is_alive for worker in started)
    ledger.close()


async def test_idle_workers_of_a_demoted_primary_find_the_new_one(pair: Pair, fleet: WorkerFleet) -> None:
    """The finding: they hung for ever, and their heartbeats kept alive what they held."""
    workers = [await fleet.ready_worker("job") for _ in range(2)]
    await fleet.publish_many(20, KEYS)
    await fleet.effects(20)
    pair.promote(kill=False)
    await fleet.publish_many(20, KEYS)
    ledger = Ledger(pair.replica.url, fleet.namespace, fleet.ledger.file)
    await eventually(lambda: ledger.count() >= 40, within=30, what=lambda: [one.output() for one in workers])
    await eventually(lambda: not ledger.left_over("job"))
    _check(pair, ledger, fleet.namespace)
    ledger.close()
