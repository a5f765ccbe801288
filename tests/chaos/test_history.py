"""The recorder writes what others check."""

from __future__ import annotations

import json
from pathlib import Path

from scripts.chaos_suite import clock, history
from scripts.chaos_suite.evidence import Commit, Evidence
from scripts.chaos_suite.executions import EffectsLog, EffectsReader, Execution
from scripts.chaos_suite.history import Event, Recorder
from scripts.chaos_suite.runner import commit_events


def test_an_event_is_one_line_of_json_with_six_fields(tmp_path: Path) -> None:
    before = clock.now()
    recorder = Recorder(tmp_path / "h", "p1:7")
    recorder.record("invoke", "publish", "a", "a/1")
    recorder.record("ok", "publish", "a", "a/1")
    recorder.close()
    first, second = [json.loads(line) for line in (tmp_path / "h").read_text().splitlines()]
    assert before <= first["time"] <= second["time"] <= clock.now()
    del first["time"], second["time"]
    assert first == {"process": "p1:7", "type": "invoke", "op": "publish", "key": "a", "id": "a/1"}
    assert second["type"] == "ok"


def test_what_is_written_can_be_read_by_time(tmp_path: Path) -> None:
    events = [
        Event("p", "ok", "publish", "a", "a/1", 2.0),
        Event("p", "invoke", "publish", "a", "a/1", 1.0),
        Event("w#1", "invoke", "commit", "a", "a/1", 3.0),
    ]
    history.write(tmp_path / "h", events)
    assert history.read(tmp_path / "h") == sorted(events, key=lambda event: event.time)


def test_a_line_that_is_not_whole_yet_is_left_for_later(tmp_path: Path) -> None:
    reader = history.LineReader(tmp_path / "h")
    assert reader.new() == []
    (tmp_path / "h").write_text('{"a": 1}\n{"a"')
    assert reader.new() == [{"a": 1}]
    (tmp_path / "h").write_text('{"a": 1}\n{"a": 2}\n')
    assert reader.new() == [{"a": 2}]
    assert reader.new() == []


def test_a_message_without_an_id_may_not_be_published_again() -> None:
    assert Event("p", "invoke", "publish", "a", "a/1", 1.0).is_repeatable
    assert not Event("p", "invoke", "publish", "a", "a/2?", 1.0).is_repeatable


def test_a_commit_is_ok_when_the_stream_has_it_and_failed_when_not() -> None:
    runs = [
        Execution("r1", "a/1", "job/a", 1, "host:1:1", 1.0, 1.5, "returned"),
        Execution("r2", "a/1", "job/a", 2, "host:2:2", 2.0, 2.5, "returned"),
    ]
    commits = (Commit(2.6, "a/1", "job/a", "r2", "host:2:2", 1, 0.5),)
    events = commit_events(Evidence(executions=tuple(runs), commits=commits))
    assert [(one.process, one.type, one.key, one.id) for one in events] == [
        ("host:1:1#r1", "invoke", "a", "a/1"),
        ("host:1:1#r1", "fail", "a", "a/1"),
        ("host:2:2#r2", "invoke", "a", "a/1"),
        ("host:2:2#r2", "ok", "a", "a/1"),
    ]
    assert events[-1].time > 2.6


def test_the_log_of_effects_knows_starts_and_ends(tmp_path: Path) -> None:
    log, reader = EffectsLog(tmp_path), EffectsReader(tmp_path)
    first = log.start("a/1", "job/a", 1, "host:41:k3x0p9qa:1")
    (running,) = reader.read()
    assert (running.run, running.pid, running.end, running.how) == (first, 41, None, "")
    log.end(first, "returned")
    second = log.start("a/2", "job/a", 1, "host:41:k3x0p9qa:1")
    ended, running = reader.read()
    assert (ended.run, ended.how, ended.id) == (first, "returned", "a/1")
    assert ended.start <= (ended.end or 0) <= running.start
    assert running.run == second
