"""Thirty kinds of junk in a topic: no worker minds, each is a dead letter with its reason, good messages go on."""

from __future__ import annotations

from typing import Any

import msgpack
import redis

from tests.helpers.eventually import eventually
from tests.helpers.worker_fleet import WorkerFleet

Fields = dict[str, str | bytes]

MEMORY = 30_000_000  # bytes that a worker may grow by
LARGE = 100_000_000  # bytes


def _job(body: bytes | str, **rest: str | bytes) -> Fields:
    return {"type": "Job", "key": "junk", "body": body, **rest}


def _nested(levels: int) -> bytes:
    return b"\x81\xa3seq" + b"\x91" * levels + b"\x01"


SOUND = msgpack.packb({"seq": 1})

JUNK: dict[str, Fields] = {
    "an empty field": {"": ""},
    "other fields": {"foo": "bar"},
    "no type": {"key": "junk", "body": SOUND},
    "an unknown type": {"type": "os.system", "key": "junk", "body": SOUND},
    "a version that nobody knows": _job(SOUND, head=msgpack.packb({"v": 99})),
    "a broken head": _job(SOUND, head=b"\x83\x01"),
    "a head of another kind": _job(SOUND, head=msgpack.packb([1, 2])),
    "an empty body": _job(b""),
    "half of a message": _job(SOUND[:-3]),
    "more than a message": _job(SOUND + b"\x01"),
    "a header that lies": _job(b"\xdd\xff\xff\xff\xff"),
    "not a number": _job(msgpack.packb({"seq": 1, "seconds": float("nan")})),
    "infinity": _job(msgpack.packb({"seq": 1, "seconds": float("inf")})),
    "not a number in JSON": _job('{"seq": 1, "seconds": NaN}'),
    "2^70": _job('{"seq": 1180591620717411303424}'),
    "a lone surrogate": _job('{"seq": 1, "behaviour": "\\ud800"}'),
    "bytes that are no text": _job(b"\x82\xa3seq\x01\xa9behaviour\xa3\xed\xa0\x80"),
    "an extension type": _job(b"\x81\xa3seq" + msgpack.packb(msgpack.ExtType(127, b"x"))),
    "a timestamp": _job(b"\x81\xa3seq" + msgpack.packb(msgpack.Timestamp(1))),
    "1,025 levels": _job(_nested(1025)),
    "1,025 levels of JSON": _job('{"seq": ' + "[" * 1025 + "]" * 1025 + "}"),
    "duplicate keys": _job(b"\x82\xa3seq\x01\xa3seq\x02"),
    "duplicate keys in JSON": _job('{"seq": 1, "seq": 2}'),
    "keys that are numbers": _job(b"\x81\x01\x02"),
    "broken JSON": _job('{"seq": '),
    "a field of another kind": _job('{"seq": "many"}'),
    "a missing field": _job("{}"),
    "a million empty maps": _job(b"\x81\xa3seq\xdd" + (1_000_000).to_bytes(4, "big") + b"\x80" * 1_000_000),
    "a hundred megabytes": _job(b"x" * LARGE),
}


async def test_every_kind_of_junk(fleet: WorkerFleet) -> None:
    server: Any = redis.Redis.from_url(fleet.url)
    topic = f"callboard:{{{fleet.namespace}}}:topic:jobs"
    worker = await fleet.ready_worker("job", short=False)
    await fleet.publish("warm-up")
    await fleet.effects(1)
    before = worker.memory
    kinds = {server.xadd(topic, fields).decode(): kind for kind, fields in JUNK.items()}
    await eventually(lambda: len(fleet.ledger.letters("job")) == len(JUNK), within=40, what=worker.output)
    for letter in fleet.ledger.letters("job"):
        kind = kinds[letter["entry"]]
        assert letter["reason"], kind
    for _ in range(20):
        await fleet.publish("junk")
    await fleet.effects(21, within=20)
    assert len(fleet.ledger.letters("job")) == len(JUNK)
    assert len(fleet.ledger.executions()) == 21, "no handler saw junk"
    assert worker.is_alive
    assert worker.memory - before < MEMORY
    assert not worker.lines("Traceback")
    assert all("xxxx" not in line for line in worker.lines()), "no payload in the log"
    await fleet.settled()
    server.close()


async def test_all_of_it_at_once_and_good_messages_between(fleet: WorkerFleet) -> None:
    server: Any = redis.Redis.from_url(fleet.url)
    topic = f"callboard:{{{fleet.namespace}}}:topic:jobs"
    for kind, fields in JUNK.items():
        if kind != "a hundred megabytes":
            server.xadd(topic, fields)
        await fleet.publish("good")
    worker = await fleet.ready_worker("job")
    await fleet.effects(len(JUNK), within=10)
    await fleet.settled()
    assert [one.seq for one in fleet.ledger.effects()] == list(range(len(JUNK)))
    assert len(fleet.ledger.letters("job")) == len(JUNK) - 1
    assert worker.is_alive
    server.close()


async def test_a_message_added_with_plain_json_is_handled(fleet: WorkerFleet) -> None:
    server: Any = redis.Redis.from_url(fleet.url)
    await fleet.ready_worker("job")
    server.xadd(
        f"callboard:{{{fleet.namespace}}}:topic:jobs", {"type": "Job", "key": "by hand", "body": '{"seq": 5}'}
    )
    await fleet.effects(1, within=30)
    assert [(one.key, one.seq) for one in fleet.ledger.effects()] == [("by hand", 5)]
    server.close()
