"""The board that `up` shows while processes run."""

from __future__ import annotations

import pytest

from callboard.broker.redis.client.identity import process_name
from callboard.broker.redis.operations.views import PulseView, TypePulse, WorkerPulse
from callboard.cli.fleet import Meter, PlainBoard, Row, plain_row, table
from callboard.process.supervisor import Child, ProcessPlan


def view(at: int, done: int, waiting: int | None = 0, pids: tuple[int, ...] = ()) -> PulseView:
    counter = TypePulse(type="counter", waiting=waiting, running=0, asking=0, done=done, dead=1, died=2)
    workers = tuple(WorkerPulse(name=f"{process_name(pid, 'k3x0p9qa')}:1", lease_ms_left=1) for pid in pids)
    return PulseView(at=at, types=(counter,), workers=workers)


def child(pid: int, group: str = "counter") -> Child:
    plan = ProcessPlan(name=group, types=(group,), command=())
    return Child(plan, state="running", pid=pid, token="k3x0p9qa")


def test_a_row_counts_processes_that_joined() -> None:
    [row] = Meter().rows(view(0, 5, None, pids=(1, 9)), [child(1), child(2)])
    assert row == Row("counter", 1, 2, None, 0, 5, 1, 2, 0.0)


def test_a_process_of_another_container_with_the_same_id_is_not_ours() -> None:
    ours = child(1)
    ours.token = "another1"
    [row] = Meter().rows(view(0, 5, None, pids=(1,)), [ours])
    assert row.up == 0


def test_a_type_that_is_not_declared_yet_has_a_row() -> None:
    assert Meter().rows(view(0, 0), [child(0, "other")]) == [Row("other", 0, 1, 0, 0, 0, 0, 0, 0.0)]


def test_the_rate_is_that_of_the_last_seconds() -> None:
    meter = Meter()
    rates = [meter.rows(view(at * 1000, done), [child(1)])[0].rate for at, done in enumerate([0, 10, 20, 20])]
    assert rates == [0.0, 10.0, 10.0, pytest.approx(20 / 3)]
    rates = [meter.rows(view(at * 1000, 20), [child(1)])[0].rate for at in range(4, 12)]
    assert rates[-1] == 0.0


def test_plain_lines_come_when_something_changed_and_at_most_once_per_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    lines: list[str] = []
    plain = PlainBoard(lines.append)
    row = Row("counter", 1, 1, 0, 0, 5, 0, 0, 2.0)
    plain.show([row])
    plain.show([row._replace(done=6)])
    assert [line[9:] for line in lines] == [
        "counter 1/1 up, 0 waiting, 0 running, 5 done, 0 dead now, 0 dead ever, 2.0/s"
    ]
    now += 1
    plain.show([row._replace(rate=0.0)])
    assert len(lines) == 1
    plain.show([row._replace(waiting=None), Row("other", 0, 1, 0, 0, 0, 0, 0, 0.0)])
    assert lines[1][9:].startswith("counter 1/1 up, ? waiting")
    assert " | other 0/1 up" in lines[1]


def test_plain_lines_of_a_busy_fleet_become_seldom_and_news_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    lines: list[str] = []
    plain = PlainBoard(lines.append)
    for second in range(600):
        now = float(second)
        plain.show([Row("counter", 1, 1, 0, 0, second, 0, 0, 1.0)])
    assert len(lines) == 14
    now += 1
    plain.show([Row("counter", 0, 1, 0, 0, 600, 0, 0, 1.0)])
    now += 1
    plain.show([Row("counter", 1, 1, 0, 0, 600, 0, 0, 1.0)])
    now += 1
    plain.show([Row("counter", 1, 1, 0, 0, 600, 1, 1, 1.0)])
    assert [line[9:24] for line in lines[14:]] == ["counter 0/1 up,", "counter 1/1 up,", "counter 1/1 up,"]


def test_handlers_that_ask_are_shown_where_there_are_some() -> None:
    row = Row("counter", 1, 1, 0, 0, 5, 0, 0, 2.0)
    assert "ASKING" not in table([row], 120)[0]
    asking = table([row, row._replace(asking=3)], 120)
    assert asking[0].split()[4] == "ASKING"
    assert asking[2].split()[4] == "3"
    assert "0 running, 3 asking, 5 done" in plain_row(row._replace(asking=3))
