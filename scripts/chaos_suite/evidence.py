"""Everything that is known when a run is over, as plain values: what the checker judges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from .executions import Execution
from .history import Event


class Commit(NamedTuple):
    """One message that left with a commit, read from the stream `topic:effects`; they are in the order of the commits.

    Attributes:
        time: of the entry, seconds on the server's clock.
        id: of the job.
        key: of the agent, as `type/key`.
        run, worker: the execution that was committed.
        total: the agent's state.
        published: when the job was handed in.
    """

    time: float
    id: str
    key: str
    run: str
    worker: str
    total: int
    published: float


class Letter(NamedTuple):
    """A dead letter. `id` is the job's, or "" when the message can't be read; `origin` is its stream and entry."""

    agent_type: str
    id: str
    origin: str
    reason: str
    attempts: int


class StoredKey(NamedTuple):
    """A key that is left in the namespace, without its prefix. `ttl` in seconds, None when it never expires."""

    name: str
    ttl: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The deviations that the faults of a run allow; without these faults they would be violations.

    Attributes:
        dead: jobs that have to become dead letters, and how many attempts each gets.
        junk: `<agent type> <stream> <entry>` of what was added by hand and has to become a dead letter.
        unordered: jobs that have no place in the order of their key: they were delayed, or replayed.
        lost_at: when data was destroyed last; only what was handed in later has to be there. 0: never.
    """

    dead: Mapping[str, int] = field(default_factory=dict)
    junk: frozenset[str] = frozenset()
    unordered: frozenset[str] = frozenset()
    lost_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The evidence of a run, collected when everything is at rest and the workers still run.

    Attributes:
        history: of the publishers.
        executions: from the log of outside effects.
        commits: from the stream.
        letters: from the streams of dead letters.
        states: what the state of each agent `type/key` counts.
        pending: `<stream> <group>` and how many entries of it are not acknowledged, where there are any.
        busy: fields of the hashes `busy:<type>`.
        consumers: for each `<stream> <group>` the names of its consumers.
        workers: how many worker processes run.
        keys: what is left in the namespace.
        mishaps: processes that ended by themselves, and tracebacks.
        expected: what the faults make right.
    """

    history: tuple[Event, ...] = ()
    executions: tuple[Execution, ...] = ()
    commits: tuple[Commit, ...] = ()
    letters: tuple[Letter, ...] = ()
    states: Mapping[str, int] = field(default_factory=dict)
    pending: Mapping[str, int] = field(default_factory=dict)
    busy: tuple[str, ...] = ()
    consumers: Mapping[str, frozenset[str]] = field(default_factory=dict)
    workers: int = 1
    keys: tuple[StoredKey, ...] = ()
    mishaps: tuple[str, ...] = ()
    expected: Expected = field(default_factory=Expected)
