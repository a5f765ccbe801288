"""The checker is checked: good histories pass, and each fault that is put into one is found."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.history import Event, History, Violation, check, read
from tests.helpers.recorder import Recorder


def good(seed: int = 1, messages: int = 60) -> list[Event]:
    """Two publishers, three keys, three workers; some publishes have an unknown end, some are refused."""
    chance = random.Random(seed)
    events: list[Event] = []
    clock = 1_763_700_000.0
    for number in range(messages):
        name, key, publisher = f"m{number}", f"k{number % 3}", f"p{number % 2}"
        events.append(Event(publisher, "invoke", "publish", key, name, clock))
        end = chance.choice(["ok"] * 8 + ["info", "fail"])
        if end != "info" or chance.random() < 0.5:  # a publisher that was killed says nothing
            events.append(Event(publisher, end, "publish", key, name, clock + 0.01))
        if end == "ok" or (end == "info" and chance.random() < 0.5):
            events += _handled(chance, key, name, clock + 0.02)
        clock += 0.1
    return events


def _handled(chance: random.Random, key: str, name: str, at: float) -> list[Event]:
    """Sometimes a worker dies or is fenced before another one commits."""
    found = []
    if chance.random() < 0.3:
        found.append(Event("w0", "invoke", "commit", key, name, at))
        found.append(Event("w0", chance.choice(["fail", "info"]), "commit", key, name, at + 0.01))
    worker = chance.choice(["w1", "w2"])
    return [
        *found,
        Event(worker, "invoke", "commit", key, name, at + 0.02),
        Event(worker, "ok", "commit", key, name, at + 0.03),
    ]


def faults(events: list[Event], *, across: bool = False) -> set[str]:
    return {violation.fault for violation in History(events, across=across).violations()}


def acknowledged(events: list[Event]) -> list[str]:
    return [event.id for event in events if (event.op, event.type) == ("publish", "ok")]


@pytest.mark.parametrize("seed", range(20))
def test_a_good_history_passes(seed: int) -> None:
    events = good(seed)
    random.Random(seed).shuffle(events)  # files of several processes come one after the other
    summary = check(events, across=True)
    assert summary.published + summary.unknown + summary.refused == 60
    assert summary.published <= summary.commits <= summary.published + summary.unknown


def lose(events: list[Event]) -> list[Event]:
    name = acknowledged(events)[7]
    return [event for event in events if (event.id, event.op) != (name, "commit")]


def double(events: list[Event]) -> list[Event]:
    twice = next(event for event in events if (event.op, event.type) == ("commit", "ok"))
    return [*events, twice._replace(process="w9", time=twice.time + 5)]


def swap(events: list[Event]) -> list[Event]:
    """Two commits of one key and one publisher change places, both long after they were published."""
    names = acknowledged(events)
    key, publisher = events[0].key, events[0].process
    mine = [
        e for e in events if e.op == "publish" and (e.key, e.process) == (key, publisher) and e.id in names
    ]
    first, second = mine[0].id, mine[2].id
    end = max(event.time for event in events)
    new = {first: end + 2, second: end + 1}
    return [
        e._replace(time=new[e.id]) if (e.op, e.type) == ("commit", "ok") and e.id in new else e
        for e in events
    ]


def invent(events: list[Event]) -> list[Event]:
    return [*events, Event("w1", "ok", "commit", "k0", "from-nowhere", events[-1].time)]


def misplace(events: list[Event]) -> list[Event]:
    """A message reaches another agent than it was sent to."""
    return [
        e._replace(key="k9") if e.op == "commit" and e.id == acknowledged(events)[3] else e for e in events
    ]


def commit_what_failed(events: list[Event]) -> list[Event]:
    refused = next(event for event in events if (event.op, event.type) == ("publish", "fail"))
    return [*events, refused._replace(process="w1", op="commit", type="ok", time=refused.time + 1)]


def commit_too_early(events: list[Event]) -> list[Event]:
    name = acknowledged(events)[-1]
    return [e._replace(time=e.time - 0.5) if e.op == "commit" and e.id == name else e for e in events]


def commit_when_fenced(events: list[Event]) -> list[Event]:
    last = next(e for e in reversed(events) if (e.op, e.type) == ("commit", "ok"))
    return [*events, last._replace(type="fail", time=last.time - 0.005)]


def end_without_beginning(events: list[Event]) -> list[Event]:
    return [*events, Event("p1", "ok", "publish", "k1", "unheard-of", events[-1].time)]


FAULTS: dict[str, tuple[Callable[[list[Event]], list[Event]], set[str]]] = {
    "lost": (lose, {"lost"}),
    "doubled": (double, {"doubled"}),
    "reordered": (swap, {"reordered"}),
    "phantom": (invent, {"phantom"}),
    "misplaced": (misplace, {"phantom"}),
    "failed": (commit_what_failed, {"failed"}),
    "early": (commit_too_early, {"early"}),
    "fenced": (commit_when_fenced, {"fenced"}),
    "broken": (end_without_beginning, {"broken"}),
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("breaks", "expected"), FAULTS.values(), ids=FAULTS.keys())
def test_every_fault_is_found(
    breaks: Callable[[list[Event]], list[Event]], expected: set[str], seed: int
) -> None:
    events = breaks(good(seed + 100))
    assert faults(events) == expected
    with pytest.raises(AssertionError, match=min(expected)):
        check(events)


def publish(name: str, begin: float, end: float, by: str = "p") -> list[Event]:
    return [
        Event(by, "invoke", "publish", "k", name, begin),
        Event(by, "ok", "publish", "k", name, end),
    ]


def commits(*names: str) -> list[Event]:
    return [Event("w", "ok", "commit", "k", name, 100.0 + place) for place, name in enumerate(names)]


def test_publishes_that_overlap_may_come_in_any_order() -> None:
    both = [*publish("one", 1.0, 3.0), *publish("two", 2.0, 4.0)]
    assert faults([*both, *commits("two", "one")]) == set()
    apart = [*publish("one", 1.0, 1.5), *publish("two", 2.0, 4.0)]
    assert faults([*apart, *commits("two", "one")]) == {"reordered"}


def test_order_between_publishers_is_checked_where_clocks_are_one() -> None:
    events = [*publish("one", 1.0, 1.5, "p1"), *publish("two", 2.0, 4.0, "p2"), *commits("two", "one")]
    assert faults(events) == set()
    assert faults(events, across=True) == {"reordered"}


def test_a_publish_of_unknown_end_may_be_late_and_may_not_be_overtaken_by_the_past() -> None:
    unknown = [
        Event("p", "invoke", "publish", "k", "lost?", 1.0),
        Event("p", "info", "publish", "k", "lost?", 1.1),
    ]
    later = publish("two", 2.0, 2.1)
    assert faults([*unknown, *later, *commits("two", "lost?")]) == set()
    assert faults([*unknown, *later, *commits("two")]) == set()
    assert faults([*publish("zero", 0.1, 0.2), *unknown, *commits("lost?", "zero")]) == {"reordered"}


def test_a_message_that_is_published_again_counts_once() -> None:
    again = [*publish("one", 1.0, 1.5), *publish("one", 5.0, 5.5, "p2"), *publish("two", 2.0, 2.5)]
    assert faults([*again, *commits("one", "two")], across=True) == set()
    assert faults([*again, *commits("one", "two", "one")]) == {"doubled"}
    refused_once = [Event("p", "invoke", "publish", "k", "x", 1), Event("p", "fail", "publish", "k", "x", 2)]
    assert faults([*refused_once, *publish("x", 3.0, 3.5), *commits("x")]) == set()
    assert faults([*refused_once, *publish("x", 3.0, 3.5)]) == {"lost"}


def test_a_worker_that_begins_again_after_it_was_fenced_may_commit() -> None:
    told = [Event("w", "invoke", "commit", "k", "one", 2.0), Event("w", "fail", "commit", "k", "one", 3.0)]
    again = Event("w", "invoke", "commit", "k", "one", 4.0)
    assert faults([*publish("one", 1.0, 1.5), *told, *commits("one")]) == {"fenced"}
    assert faults([*publish("one", 1.0, 1.5), *told, again, *commits("one")]) == set()


def test_a_violation_says_what_is_wrong() -> None:
    (found,) = History([*publish("one", 1.0, 1.5), *commits("one", "one")]).violations()
    assert found == Violation("doubled", "k", "one", "one was committed 2 times")


def test_what_was_recorded_is_read_in_order_of_time(tmp_path: Path) -> None:
    first, second = Recorder(tmp_path / "a", "p1"), Recorder(tmp_path / "b", "p2")
    first.write("invoke", "publish", "k", "one")
    second.write("invoke", "publish", "k", "two", at=1.0)
    first.write("ok", "publish", "k", "one")
    first.close()
    second.close()
    with (tmp_path / "a").open("a") as file:
        file.write('{"process": "p1", "type": "inv')  # killed while it wrote
    events = read(tmp_path / "a", tmp_path / "b")
    assert [(event.process, event.type, event.id) for event in events] == [
        ("p2", "invoke", "two"),
        ("p1", "invoke", "one"),
        ("p1", "ok", "one"),
    ]


@pytest.mark.parametrize(
    "line", ["{}", "no", '{"process": "p", "type": "maybe", "op": "publish", "key": "", "id": "", "time": 1}']
)
def test_what_is_no_event_is_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "history"
    file.write_text(line + "\n")
    with pytest.raises(ValueError, match="line 1 of history is not an event"):
        read(file)
