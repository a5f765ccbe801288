"""Judges the evidence of a run. It knows nothing of the code under test, only of what a run leaves behind.

An execution counts, is "effective", when the stream of effects has the message that left with its commit. Two executions
for one agent may overlap only if they belong to different incarnations of workers and at most one of them is effective. The
incarnation of the other is then a zombie: it was killed, or paused past its lease, and the agent was given to another worker
because it was reaped. So it commits nothing any more, for no agent, from the moment when the effective one started.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from .evidence import Commit, Evidence
from .executions import Execution
from .keyspace import wrong_keys


class Violation(NamedTuple):
    """One thing that the promise forbids."""

    rule: str
    detail: str


def check(evidence: Evidence) -> list[Violation]:
    """Everything that is wrong, by rule."""
    return [Violation(rule, detail) for rule, find in RULES.items() for detail in find(evidence)]


def _acknowledged(evidence: Evidence) -> set[str]:
    """Jobs whose publisher was told that they arrived, and that no fault destroyed."""
    begun = _begun(evidence)
    lost_at = evidence.expected.lost_at
    return {
        event.id
        for event in evidence.history
        if event.op == "publish" and event.type == "ok" and begun[event.id] >= lost_at
    }


def _begun(evidence: Evidence) -> dict[str, float]:
    first: dict[str, float] = {}
    for event in evidence.history:
        if event.op == "publish" and event.type == "invoke":
            first[event.id] = min(event.time, first.get(event.id, event.time))
    return first


def _lost(evidence: Evidence) -> Iterator[str]:
    committed = {commit.id for commit in evidence.commits}
    for lost in sorted(_acknowledged(evidence) - committed - set(evidence.expected.dead)):
        yield f"{lost} was acknowledged and never committed"


def _doubled(evidence: Evidence) -> Iterator[str]:
    times = Counter(commit.id for commit in evidence.commits)
    for job, number in times.items():
        if number > 1:
            yield f"{job} was committed {number} times"


def _invented(evidence: Evidence) -> Iterator[str]:
    """Commits of messages that no publisher published, or that a publisher was told are not there."""
    begun = _begun(evidence)
    ends: dict[str, list[str]] = defaultdict(list)
    for event in evidence.history:
        if event.op == "publish":
            ends[event.id].append(event.type)
    for commit in evidence.commits:
        if commit.id not in begun:
            yield f"{commit.id} was committed and never published"
        elif ends[commit.id].count("fail") == ends[commit.id].count("invoke"):
            yield f"{commit.id} was refused each time and committed all the same"


def _out_of_order(evidence: Evidence) -> Iterator[str]:
    """For one key, what was acknowledged before another was begun comes first."""
    begun, acknowledged = _begun(evidence), _first_acknowledged(evidence)
    latest: dict[str, tuple[float, str]] = {}
    for commit in evidence.commits:
        if commit.id in evidence.expected.unordered or commit.id not in begun:
            continue
        earlier = latest.get(commit.key, (0.0, ""))
        if acknowledged.get(commit.id, float("inf")) < earlier[0]:
            yield f"{commit.key}: {commit.id} was committed after {earlier[1]}, which was published later"
        latest[commit.key] = max(earlier, (begun[commit.id], commit.id))


def _first_acknowledged(evidence: Evidence) -> dict[str, float]:
    first: dict[str, float] = {}
    for event in evidence.history:
        if event.op == "publish" and event.type == "ok":
            first[event.id] = min(event.time, first.get(event.id, event.time))
    return first


def _overlapping(evidence: Evidence) -> Iterator[str]:
    effective = {commit.run for commit in evidence.commits}
    last_commit = {commit.worker: commit.time for commit in evidence.commits}
    for one, other in _overlaps(evidence.executions):
        pair = f"{_shown(one, effective)} and {_shown(other, effective)} ran at the same time"
        if one.worker == other.worker:
            yield f"{one.key}: {pair}, in one worker"
        elif one.run in effective and other.run in effective:
            yield f"{one.key}: {pair}"
        elif one.run in effective or other.run in effective:
            counted, zombie = (one, other) if one.run in effective else (other, one)
            if last_commit.get(zombie.worker, 0.0) > counted.start:
                yield f"{one.key}: {pair}, and {zombie.worker} went on committing"


def _overlaps(executions: Iterable[Execution]) -> Iterator[tuple[Execution, Execution]]:
    """Every two executions for one agent of which the second started before the first had ended."""
    by_key: dict[str, list[Execution]] = defaultdict(list)
    for one in executions:
        by_key[one.key].append(one)
    for ones in by_key.values():
        open_ones: list[Execution] = []
        for one in sorted(ones, key=lambda one: one.start):
            open_ones = [other for other in open_ones if other.end is None or other.end > one.start]
            yield from ((other, one) for other in open_ones)
            open_ones.append(one)


def _shown(one: Execution, effective: set[str]) -> str:
    counted = "committed" if one.run in effective else "not committed"
    return f"{one.id} on {one.worker} ({counted})"


def _unknown_executions(evidence: Evidence) -> Iterator[str]:
    """Handlers that were called with a message that no publisher published."""
    begun = _begun(evidence)
    for one in evidence.executions:
        if one.id not in begun:
            yield f"{one.key} was called with {one.id!r}, which no publisher published"


def _without_execution(evidence: Evidence) -> Iterator[str]:
    """A commit belongs to a handler of this message that returned."""
    by_run = {one.run: one for one in evidence.executions}
    for commit in evidence.commits:
        execution = by_run.get(commit.run)
        if execution is None:
            yield f"{commit.id} was committed by a run that never started"
        elif execution.how != "returned" or execution.id != commit.id or execution.worker != commit.worker:
            yield f"{commit.id} was committed by a run of {execution.id} that {execution.how or 'did not end'}"


def _wrong_states(evidence: Evidence) -> Iterator[str]:
    """The state that leaves with each commit counts the commits, and so does the one that is stored."""
    last: dict[str, Commit] = {}
    for commit in evidence.commits:
        before = last.get(commit.key)
        start = 1 if evidence.expected.lost_at == 0 else commit.total
        expected = before.total + 1 if before is not None else start
        if commit.total != expected:
            yield f"{commit.key}: {commit.id} made the state {commit.total}, it had to be {expected}"
        last[commit.key] = commit
    for key, commit in last.items():
        stored = evidence.states.get(key)
        if stored != commit.total:
            yield f"{key}: the stored state is {stored}, the last commit made it {commit.total}"


def _wrong_letters(evidence: Evidence) -> Iterator[str]:
    expected = evidence.expected
    junk = {f"{letter.agent_type} {letter.origin}" for letter in evidence.letters}
    for entry in sorted(expected.junk - junk):
        yield f"the junk {entry} did not become a dead letter"
    found = Counter(letter.id for letter in evidence.letters if letter.id)
    for job in expected.dead:
        if found[job] != 1:
            yield f"{job} should be one dead letter, there are {found[job]}"
    for letter in evidence.letters:
        if f"{letter.agent_type} {letter.origin}" in expected.junk:
            continue
        if letter.id not in expected.dead:
            yield f"{letter.id or letter.origin} became a dead letter: {letter.reason}"
        elif letter.attempts != expected.dead[letter.id]:
            yield f"{letter.id} got {letter.attempts} attempts and not {expected.dead[letter.id]}"


def _pending(evidence: Evidence) -> Iterator[str]:
    for where, number in evidence.pending.items():
        yield f"{where} has {number} entries that are not acknowledged"


def _busy(evidence: Evidence) -> Iterator[str]:
    for key in evidence.busy:
        yield f"{key} is still busy"


def _consumers(evidence: Evidence) -> Iterator[str]:
    limit = 2 * evidence.workers
    for where, names in evidence.consumers.items():
        if len(names) > limit:
            yield f"{where} has {len(names)} consumers for {evidence.workers} workers: {sorted(names)}"


def _ownerless(evidence: Evidence) -> Iterable[str]:
    return wrong_keys(evidence.keys)


def _mishaps(evidence: Evidence) -> Iterable[str]:
    return evidence.mishaps


RULES: Final[dict[str, Callable[[Evidence], Iterable[str]]]] = {
    "lost": _lost,
    "doubled": _doubled,
    "invented": _invented,
    "out of order": _out_of_order,
    "at the same time": _overlapping,
    "unknown message handled": _unknown_executions,
    "commit without a run": _without_execution,
    "wrong state": _wrong_states,
    "wrong dead letters": _wrong_letters,
    "pending": _pending,
    "busy": _busy,
    "too many consumers": _consumers,
    "keys without an owner": _ownerless,
    "processes that failed": _mishaps,
}
"""The checks, in the order of the report."""
