"""The checker finds what is wrong: it is fed evidence with one known fault at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scripts.chaos_suite.checker import RULES, check
from scripts.chaos_suite.evidence import Commit, Evidence, Expected, Letter, StoredKey
from scripts.chaos_suite.executions import Execution
from scripts.chaos_suite.history import Event, EventType

KEY = "job/k"
WORKER, OTHER = "host:10:1", "host:20:2"


def published(id: str, at: float, *, ends: EventType | None = "ok", process: str = "p") -> list[Event]:
    """One publish: begun at `at`, ended half a second later, or never."""
    begun = Event(process, "invoke", "publish", "k", id, at)
    return [begun] if ends is None else [begun, Event(process, ends, "publish", "k", id, at + 0.5)]


def run(id: str, start: float, *, end: float | None = None, how: str = "returned", **rest: Any) -> Execution:
    given = {"run": f"r{id}", "key": KEY, "attempt": 1, "worker": WORKER, **rest}
    return Execution(id=id, start=start, end=start + 0.2 if end is None else end, how=how, **given)


def commit(id: str, at: float, total: int, **rest: Any) -> Commit:
    given = {"key": KEY, "run": f"r{id}", "worker": WORKER, "published": 0.0, **rest}
    return Commit(time=at, id=id, total=total, **given)


def good() -> Evidence:
    """Three messages for one agent, everything as it should be."""
    return Evidence(
        history=tuple(event for n in range(3) for event in published(f"{n}", 1.0 + n)),
        executions=tuple(run(f"{n}", 1.7 + n) for n in range(3)),
        commits=tuple(commit(f"{n}", 1.9 + n, n + 1) for n in range(3)),
        states={KEY: 3},
        consumers={"topic:jobs job": frozenset({WORKER, OTHER, "nobody"})},
        workers=2,
        keys=(StoredKey("topic:jobs", None), StoredKey("dedupe", 60.0), StoredKey("state:job:k", None)),
    )


def broken(evidence: Evidence) -> set[str]:
    """The rules that are broken."""
    return {violation.rule for violation in check(evidence)}


def test_nothing_is_wrong_with_good_evidence() -> None:
    assert check(good()) == []


# Lost, doubled, invented


def test_a_message_that_was_acknowledged_and_never_committed_is_lost() -> None:
    evidence = replace(good(), commits=good().commits[:2], executions=good().executions[:2], states={KEY: 2})
    assert broken(evidence) == {"lost"}


@pytest.mark.parametrize("ends", [None, "info", "fail"])
def test_a_message_that_was_not_acknowledged_need_not_be_there(ends: EventType | None) -> None:
    evidence = replace(good(), history=(*good().history, *published("3", 5.0, ends=ends)))
    assert check(evidence) == []


@pytest.mark.parametrize("ends", [None, "info"])
def test_a_message_of_which_nobody_knows_may_be_there_once(ends: EventType | None) -> None:
    evidence = replace(
        good(),
        history=(*good().history, *published("3", 5.0, ends=ends)),
        executions=(*good().executions, run("3", 5.7)),
        commits=(*good().commits, commit("3", 5.9, 4)),
        states={KEY: 4},
    )
    assert check(evidence) == []
    twice = replace(evidence, commits=(*evidence.commits, commit("3", 6.9, 5)), states={KEY: 5})
    assert broken(twice) == {"doubled"}


def test_a_message_that_was_refused_must_not_be_there() -> None:
    evidence = replace(
        good(),
        history=(*good().history, *published("3", 5.0, ends="fail")),
        executions=(*good().executions, run("3", 5.7)),
        commits=(*good().commits, commit("3", 5.9, 4)),
        states={KEY: 4},
    )
    assert broken(evidence) == {"invented"}
    tried_again = replace(evidence, history=(*evidence.history, *published("3", 5.1, ends="ok")))
    assert check(tried_again) == []


def test_a_message_that_was_committed_twice() -> None:
    commits = (*good().commits, commit("2", 4.9, 4))
    assert broken(replace(good(), commits=commits, states={KEY: 4})) == {"doubled"}


def test_a_message_published_twice_with_its_id_counts_once() -> None:
    again = published("1", 4.0, process="q")
    assert check(replace(good(), history=(*good().history, *again))) == []


def test_a_message_that_nobody_published() -> None:
    evidence = replace(good(), history=tuple(event for event in good().history if event.id != "2"))
    assert broken(evidence) == {"invented", "unknown message handled"}


# Order


def test_a_message_that_overtook_an_earlier_one() -> None:
    first, second, third = good().commits
    commits = (first, third._replace(total=2, time=2.9), second._replace(total=3, time=3.9))
    assert broken(replace(good(), commits=commits)) == {"out of order"}


def test_messages_published_at_the_same_time_have_no_order() -> None:
    history = (*published("0", 1.0), *published("1", 2.0), *published("2", 2.2))
    first, second, third = good().commits
    commits = (first, third._replace(total=2, time=2.9), second._replace(total=3, time=3.9))
    assert check(replace(good(), history=history, commits=commits)) == []


def test_messages_of_different_agents_have_no_order() -> None:
    first, second, third = good().commits
    commits = (first, third._replace(key="job/l", total=1), second._replace(total=2))
    assert "out of order" not in broken(replace(good(), commits=commits, states={KEY: 2, "job/l": 1}))


def test_what_was_delayed_has_no_place_in_the_order() -> None:
    first, second, third = good().commits
    commits = (first, third._replace(total=2, time=2.9), second._replace(total=3, time=3.9))
    expected = Expected(unordered=frozenset({"1"}))
    assert check(replace(good(), commits=commits, expected=expected)) == []


# One at a time


def test_two_handlers_of_one_agent_that_both_counted() -> None:
    executions = list(good().executions)
    executions[1] = executions[1]._replace(worker=OTHER, start=1.8)
    commits = list(good().commits)
    commits[1] = commits[1]._replace(worker=OTHER)
    evidence = replace(good(), executions=tuple(executions), commits=tuple(commits))
    assert broken(evidence) == {"at the same time"}


def test_a_zombie_may_still_run_when_its_commit_was_refused() -> None:
    zombie = run("1", 2.0, end=5.0, run="zombie", worker=OTHER)
    assert check(replace(good(), executions=(*good().executions, zombie))) == []


def test_a_zombie_whose_commit_was_not_refused() -> None:
    zombie = run("1", 2.0, end=5.0, worker=OTHER)
    first, second, third = good().executions
    commits = list(good().commits)
    commits[1] = commits[1]._replace(worker=OTHER)
    evidence = replace(
        good(), executions=(first, zombie, second._replace(run="refused"), third), commits=tuple(commits)
    )
    assert broken(evidence) == {"at the same time"}


def test_a_zombie_that_wakes_up_may_even_start_what_somebody_else_has() -> None:
    zombie = run("1", 2.8, run="zombie", worker=OTHER)
    assert check(replace(good(), executions=(*good().executions, zombie))) == []


def test_a_zombie_commits_nothing_any_more_not_even_for_another_agent() -> None:
    zombie = run("1", 2.8, run="zombie", worker=OTHER)
    elsewhere = run("3", 4.0, worker=OTHER, key="job/l")
    evidence = replace(
        good(),
        history=(*good().history, *published("3", 3.5)),
        executions=(*good().executions, zombie, elsewhere),
        commits=(*good().commits, commit("3", 4.3, 1, worker=OTHER, key="job/l")),
        states={KEY: 3, "job/l": 1},
    )
    assert broken(evidence) == {"at the same time"}
    before = replace(
        evidence,
        commits=(commit("3", 1.2, 1, worker=OTHER, key="job/l"), *good().commits),
    )
    assert check(before) == []


def test_one_worker_never_runs_two_handlers_of_an_agent() -> None:
    twin = run("1", 2.65, end=2.75, how="cancelled", run="twin")
    assert broken(replace(good(), executions=(*good().executions, twin))) == {"at the same time"}


def test_a_handler_that_died_with_its_process_has_no_end() -> None:
    dead = Execution("dead", "1", KEY, 1, OTHER, 2.6, None, "")
    assert check(replace(good(), executions=(*good().executions, dead))) == []


# What belongs together


def test_a_commit_without_a_handler() -> None:
    assert broken(replace(good(), executions=good().executions[:2])) == {"commit without a run"}


@pytest.mark.parametrize("how", ["raised", "cancelled"])
def test_a_commit_of_a_handler_that_did_not_return(how: str) -> None:
    executions = (*good().executions[:2], good().executions[2]._replace(how=how))
    assert broken(replace(good(), executions=executions)) == {"commit without a run"}


def test_a_state_that_missed_a_commit() -> None:
    commits = (*good().commits[:2], good().commits[2]._replace(total=2))
    assert broken(replace(good(), commits=commits, states={KEY: 2})) == {"wrong state"}


def test_a_stored_state_that_is_not_that_of_the_last_commit() -> None:
    assert broken(replace(good(), states={KEY: 2})) == {"wrong state"}
    assert broken(replace(good(), states={})) == {"wrong state"}


# After a loss of data


def test_what_was_published_before_a_loss_need_not_be_there() -> None:
    evidence = replace(good(), commits=good().commits[2:], expected=Expected(lost_at=2.5))
    assert check(evidence) == []


def test_what_was_published_after_a_loss_has_to_be_there() -> None:
    evidence = replace(good(), commits=good().commits[:2], states={KEY: 2}, expected=Expected(lost_at=2.5))
    assert broken(evidence) == {"lost"}


# Dead letters


def letter(id: str, *, origin: str = "topic:jobs 1-0", attempts: int = 3) -> Letter:
    return Letter("frail", id, origin, "failed", attempts)


def with_dead(*letters: Letter, **expected: Any) -> Evidence:
    history = (*good().history, *published("bad", 5.0))
    return replace(good(), history=history, letters=letters, expected=Expected(**expected))


def test_what_has_to_fail_is_one_dead_letter_after_its_attempts() -> None:
    assert check(with_dead(letter("bad"), dead={"bad": 3})) == []


@pytest.mark.parametrize(
    "letters",
    [(), (letter("bad"), letter("bad", origin="topic:jobs 2-0")), (letter("bad", attempts=4),)],
    ids=["none", "two", "too many attempts"],
)
def test_another_number_is_wrong(letters: tuple[Letter, ...]) -> None:
    assert broken(with_dead(*letters, dead={"bad": 3})) == {"wrong dead letters"}


def test_a_message_that_should_not_have_failed() -> None:
    assert broken(with_dead(letter("bad"))) == {"lost", "wrong dead letters"}


def test_junk_is_a_dead_letter() -> None:
    junk = frozenset({"frail topic:jobs 1-0"})
    assert check(replace(good(), letters=(letter(""),), expected=Expected(junk=junk))) == []
    assert broken(replace(good(), expected=Expected(junk=junk))) == {"wrong dead letters"}
    assert broken(replace(good(), letters=(letter(""),))) == {"wrong dead letters"}


# What is left


@pytest.mark.parametrize(
    ("left", "rule"),
    [
        ({"pending": {"topic:jobs job": 1}}, "pending"),
        ({"busy": ("job/k",)}, "busy"),
        ({"consumers": {"topic:jobs job": frozenset("abcde")}}, "too many consumers"),
        ({"mishaps": ("worker-1 ended with 1",)}, "processes that failed"),
        ({"keys": (StoredKey("lock:x", None),)}, "keys without an owner"),
        ({"keys": (StoredKey("sent:x", None),)}, "keys without an owner"),
        ({"keys": (StoredKey("wait:job:k", 5.0),)}, "keys without an owner"),
        ({"keys": (StoredKey("own:host:1:1", None),)}, "keys without an owner"),
        ({"keys": (StoredKey("timer:abc", None),)}, "keys without an owner"),
    ],
)
def test_what_must_not_be_left(left: dict[str, Any], rule: str) -> None:
    assert broken(replace(good(), **left)) == {rule}


def test_every_rule_is_broken_by_some_test_above() -> None:
    tested = {
        "lost",
        "doubled",
        "invented",
        "out of order",
        "at the same time",
        "unknown message handled",
        "commit without a run",
        "wrong state",
        "wrong dead letters",
        "pending",
        "busy",
        "too many consumers",
        "keys without an owner",
        "processes that failed",
    }
    assert set(RULES) == tested
