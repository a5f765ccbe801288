"""Plans are values: the same seed, the same faults."""

from __future__ import annotations

import itertools

from scripts.chaos_suite import plan
from scripts.chaos_suite.faults import all_faults

# Of the issues that asked for them.
ASKED_FOR = {
    "block-loop",
    "client-kill",
    "crash-commands",
    "cut",
    "delay",
    "delete-stream",
    "destroy-group",
    "drip",
    "duplicates",
    "flushall",
    "half-open",
    "handler-exits",
    "handler-hangs",
    "handler-leaks",
    "handler-raises",
    "hostile-keys",
    "junk",
    "kill-publisher",
    "kill-server-always",
    "kill-server-everysec",
    "kill-supervisor",
    "kill-worker",
    "memory-full",
    "memory-killed",
    "pause-8s",
    "pause-two-leases",
    "replays",
    "restart-empty",
    "rolling-restart",
    "saving",
    "scale",
    "skewed-clock",
    "stop-worker",
    "timers",
}


def test_every_fault_that_was_asked_for_is_there() -> None:
    assert set(all_faults()) >= ASKED_FOR


def test_every_fault_says_what_it_does() -> None:
    for name, cls in all_faults().items():
        assert cls.name == name
        assert cls.summary, name
        assert cls.promise, name
        assert cls.seconds > 0, name


def test_one_seed_is_one_plan() -> None:
    assert plan.whole(17) == plan.whole(17)
    assert plan.whole(17) != plan.whole(18)
    assert plan.mixed(17) == plan.mixed(17)


def test_the_whole_plan_has_every_fault_alone_and_some_mixed() -> None:
    acts = [act for lane in plan.whole(1) for act in lane]
    alone = [
        fault.name for act in acts for step in act.steps if len(step.faults) == 1 for fault in step.faults
    ]
    assert sorted(alone) == sorted(all_faults())
    (mixed,) = [act for act in acts if act.is_mixed]
    assert all(len(step.faults) == plan.MIXED_FAULTS for step in mixed.steps)
    assert all(fault.mixes for step in mixed.steps for fault in step.faults)


def test_figures_are_not_taken_where_faults_are_mixed() -> None:
    acts = [act for lane in plan.whole(1) for act in lane]
    assert [act.name for act in acts if act.is_mixed] == ["mixed"]


def test_some_faults_only() -> None:
    (lane,) = plan.only(1, ["flushall", "kill-worker"])
    assert [(act.name, [fault.name for step in act.steps for fault in step.faults]) for act in lane] == [
        ("processes", ["kill-worker"]),
        ("loss", ["flushall"]),
    ]


def test_a_soak_goes_on_and_never_repeats_itself() -> None:
    first, second = itertools.islice(plan.soak(5), 2)
    assert first.steps != second.steps
    assert first == next(plan.soak(5))


def test_stops_are_between_a_third_of_a_lease_and_three() -> None:
    import random

    from scripts.chaos_suite.faults.stop_worker import StopWorker

    leases = [StopWorker.draw(random.Random(seed)).leases for seed in range(200)]
    assert 0.3 <= min(leases) < 0.6
    assert 2.7 < max(leases) <= 3.0
