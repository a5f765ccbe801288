"""Looks at what jobs left behind, without anything of the code under test: plain commands and msgpack."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import redis


class Execution(NamedTuple):
    """A line that a handler wrote. `what` is "start" or "end", `at` seconds."""

    what: str
    key: str
    seq: int
    attempt: int
    pid: int
    at: float


class Effect(NamedTuple):
    """A message that left with a commit. `at` ms."""

    key: str
    seq: int
    total: int
    at: int


class Ledger:
    """The traces of one namespace."""

    def __init__(self, url: str, namespace: str, file: Path) -> None:
        self._redis: Any = redis.Redis.from_url(url)
        self._prefix = f"callboard:{{{namespace}}}:"
        self.file = file

    def executions(self, what: str = "start") -> list[Execution]:
        """Every execution that began, or ended, in order of time."""
        if not self.file.exists():
            return []
        found = []
        for line in self.file.read_text().splitlines():
            kind, key, seq, attempt, pid, at = line.split(" ")
            found.append(Execution(kind, key, int(seq), int(attempt), int(pid), float(at)))
        return [one for one in found if one.what == what]

    def effects(self) -> list[Effect]:
        """Every effect, in the order of the commits."""
        return [
            _effect(entry, fields) for entry, fields in self._redis.xrange(self._prefix + "topic:effects")
        ]

    def count(self) -> int:
        """How many effects there are."""
        return int(self._redis.xlen(self._prefix + "topic:effects"))

    def letters(self, agent_type: str) -> list[dict[str, str]]:
        """The dead letters of a type; bodies are not text and left out."""
        found = self._redis.xrange(self._prefix + f"dead:{agent_type}")
        return [
            {
                name.decode(): value.decode()
                for name, value in fields.items()
                if name not in (b"body", b"head")
            }
            for _, fields in found
        ]

    def total(self, agent_type: str, key: str) -> int:
        """What the state of an agent says."""
        data = self._redis.hget(self._prefix + f"state:{agent_type}:{key}", "d")
        return int(json.loads(data)["total"]) if data else 0

    def done(self, agent_type: str, key: str) -> list[int]:
        """What the log of an agent says."""
        found: list[bytes] = self._redis.lrange(self._prefix + f"log:{agent_type}:{key}:done", 0, -1)
        return [int(item) for item in found]

    def stats(self, agent_type: str) -> dict[str, int]:
        """The counters of a type."""
        found = self._redis.hgetall(self._prefix + f"stats:{agent_type}")
        return {name.decode(): int(value) for name, value in found.items()}

    def left_over(self, agent_type: str) -> list[str]:
        """What is held, parked or not acknowledged."""
        names = [f"{name}:{agent_type}" for name in ("busy", "parked", "ready", "suspects", "early")]
        left = [name for name in names if self._redis.exists(self._prefix + name)]
        streams = [stream.decode() for stream in self._redis.smembers(self._prefix + f"streams:{agent_type}")]
        left += [
            f"pending in {stream}"
            for stream in streams
            if self._redis.xpending(self._prefix + stream, agent_type)["pending"]
        ]
        return left

    def events(self) -> list[str]:
        """What the runtime did, one line each."""
        found = self._redis.xrange(self._prefix + "events")
        return [b" ".join(fields.values()).decode(errors="replace") for _, fields in found]

    def check(self, agent_type: str, expected: Mapping[str, int], *, in_order: bool = True) -> None:
        """Every job exactly once in effect, in order, and nothing left.

        Args:
            agent_type: who did them.
            expected: for each key how many jobs there were; they are numbered from 0.
            in_order: False: each once, in whatever order.
        """
        effects = self.effects()
        order: dict[str, list[int]] = defaultdict(list)
        for one in effects:
            order[one.key].append(one.seq)
        times = Counter((one.key, one.seq) for one in effects)
        wanted = {(key, seq) for key, number in expected.items() for seq in range(number)}
        assert wanted - set(times) == set(), "lost"
        assert {job: number for job, number in times.items() if number > 1} == {}, "committed twice"
        assert set(times) - wanted == set(), "from nowhere"
        if in_order:
            assert {key: seen for key, seen in order.items() if seen != sorted(seen)} == {}, "out of order"
        assert {key: self.total(agent_type, key) for key in expected} == dict(expected), "the states differ"
        if agent_type == "job":
            logs = {key: self.done(agent_type, key) for key in expected}
            assert logs == {key: order[key] for key in expected}, "the logs differ"
        assert self.left_over(agent_type) == []
        assert self.letters(agent_type) == []

    def close(self) -> None:
        self._redis.close()


def _effect(entry: bytes, fields: Mapping[bytes, bytes]) -> Effect:
    body: dict[str, Any] = msgpack.unpackb(fields[b"body"])
    return Effect(body["key"], body["seq"], body["count"], int(fields.get(b"at") or entry.partition(b"-")[0]))
