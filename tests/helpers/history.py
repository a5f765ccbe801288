"""Checks what happened against the promise, afterwards and from outside: a history check in the style of Jepsen.

A history is a file of JSON lines, each with

    process   who did it: a publisher, or one incarnation of a worker
    type      `invoke` it began, `ok` it happened, `fail` it did not happen, `info` nobody knows
    op        `publish` or `commit`
    key       agent key
    id        message
    time      seconds, of one clock for all processes

An `ok` of a commit is written by whoever reads the effects at the end, in the order of the effects; a worker that was told
that it is fenced writes `fail`. Lines may come in any order; those of the same time keep theirs.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

TYPES = ("invoke", "ok", "fail", "info")
OPS = ("publish", "commit")
ROUNDING = 0.002  # seconds: servers give whole milliseconds

Fault = Literal["lost", "doubled", "phantom", "failed", "early", "reordered", "fenced", "broken"]


class Event(NamedTuple):
    """One line of a history."""

    process: str
    type: str
    op: str
    key: str
    id: str
    time: float


class Violation(NamedTuple):
    """Something that must not happen.

    Attributes:
        fault: `lost` an acknowledged publish has no commit; `doubled` a message has several; `phantom` a commit of what
            nobody published; `failed` a commit of what was refused; `early` a commit before its publish began;
            `reordered` a commit before that of a message whose publish had ended when its own began; `fenced` a commit
            of a worker that had been told it lost its lease; `broken` the history itself can't be.
        key, id: what it is about.
        text: a sentence.
    """

    fault: Fault
    key: str
    id: str
    text: str


class Summary(NamedTuple):
    """What a history holds, so that an empty one does not pass for a good one."""

    published: int
    unknown: int
    refused: int
    commits: int
    fenced: int


def read(*files: Path) -> list[Event]:
    """The events of some files, in order of time. A last line that a killed process did not finish is left out.

    Raises:
        ValueError: another line is not an event.
    """
    events = [event for file in files for event in _events(file)]
    return sorted(events, key=lambda event: event.time)


def _events(file: Path) -> Iterator[Event]:
    lines = file.read_text().split("\n")
    for number, line in enumerate(lines):
        if number == len(lines) - 1:
            return  # what follows the last line feed: nothing, or half a line
        try:
            fields = json.loads(line)
            event = Event(*(fields[name] for name in Event._fields))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"line {number + 1} of {file.name} is not an event: {line!r}") from error
        if event.type not in TYPES or event.op not in OPS:
            raise ValueError(f"line {number + 1} of {file.name} is not an event: {line!r}")
        yield event


class History:
    """Events by what they are about.

    A message may be published again under its id, by the same process or another: it still counts once.

    Args:
        events: in order of time.
        across: order is checked between publishers too: sound where all events have one clock.
    """

    def __init__(self, events: Sequence[Event], *, across: bool = False) -> None:
        self._across = across
        self._invoked: dict[str, Event] = {}  # the first time that it was published
        self._open: Counter[str] = Counter()  # publishes that have begun and of which no end is known
        self._acknowledged: dict[str, float] = {}
        self._commits: list[Event] = []
        self._began: dict[tuple[str, str], float] = {}  # commits by process and message
        self._fenced: dict[tuple[str, str], float] = {}
        self._broken: list[Violation] = []
        for event in sorted(events, key=lambda event: event.time):
            if event.op == "publish":
                self._add_publish(event)
            else:
                self._add_commit(event)

    def _add_publish(self, event: Event) -> None:
        if event.type == "invoke":
            self._invoked.setdefault(event.id, event)
            self._open[event.id] += 1
        elif not self._open[event.id]:
            text = f"{event.id}: its publish ended ({event.type}) and had not begun"
            self._broken.append(Violation("broken", event.key, event.id, text))
        elif event.type == "ok":
            self._open[event.id] -= 1
            self._acknowledged.setdefault(event.id, event.time)
        elif event.type == "fail":
            self._open[event.id] -= 1

    def _add_commit(self, event: Event) -> None:
        attempt = (event.process, event.id)
        if event.type == "ok":
            self._commits.append(event)
        elif event.type == "invoke":
            self._began[attempt] = event.time
        elif event.type == "fail":
            self._fenced[attempt] = event.time

    def _outcome(self, message: str) -> str:
        """How its publishes ended; one without an end may or may not have happened."""
        if message in self._acknowledged:
            return "ok"
        return "info" if self._open[message] else "fail"

    @property
    def summary(self) -> Summary:
        outcomes = Counter(self._outcome(message) for message in self._invoked)
        return Summary(
            outcomes["ok"], outcomes["info"], outcomes["fail"], len(self._commits), len(self._fenced)
        )

    def violations(self) -> list[Violation]:
        """Everything that must not happen and did."""
        return [
            *self._broken,
            *self._lost(),
            *self._doubled(),
            *self._unfounded(),
            *self._by_the_fenced(),
            *self._reordered(),
        ]

    def _lost(self) -> Iterator[Violation]:
        committed = {event.id for event in self._commits}
        for message, event in self._invoked.items():
            if self._outcome(message) == "ok" and message not in committed:
                yield Violation("lost", event.key, message, f"{message} was acknowledged and never committed")

    def _doubled(self) -> Iterator[Violation]:
        times = Counter(event.id for event in self._commits)
        for event in {event.id: event for event in self._commits}.values():
            if times[event.id] > 1:
                text = f"{event.id} was committed {times[event.id]} times"
                yield Violation("doubled", event.key, event.id, text)

    def _unfounded(self) -> Iterator[Violation]:
        for event in self._commits:
            invoked = self._invoked.get(event.id)
            if invoked is None or invoked.key != event.key:
                text = f"{event.id} of {event.key} was committed and never published"
                yield Violation("phantom", event.key, event.id, text)
            elif self._outcome(event.id) == "fail":
                text = f"{event.id} was committed, and its publisher was told that it failed"
                yield Violation("failed", event.key, event.id, text)
            elif event.time < invoked.time - ROUNDING:
                text = f"{event.id} was committed {invoked.time - event.time:.3f} s before it was published"
                yield Violation("early", event.key, event.id, text)

    def _by_the_fenced(self) -> Iterator[Violation]:
        for event in self._commits:
            attempt = (event.process, event.id)
            told = self._fenced.get(attempt)
            # Whoever begins again after it was told is another activation.
            if told is not None and self._began.get(attempt, told) <= told:
                text = f"{event.id} was committed by {event.process}, which had been told that it is fenced"
                yield Violation("fenced", event.key, event.id, text)

    def _reordered(self) -> Iterator[Violation]:
        """In the order of commits: nobody may come after a message whose publish began when its own had ended."""
        latest: dict[
            tuple[str, str], Event
        ] = {}  # for each line: the committed message whose publish began last
        for event in self._firsts():
            invoked = self._invoked[event.id]
            line = (event.key, "" if self._across else invoked.process)
            before = latest.get(line)
            ended = self._acknowledged.get(event.id)
            if before is not None and ended is not None and ended < before.time:
                text = f"{event.id} was committed after {before.id}, which was published after it"
                yield Violation("reordered", event.key, event.id, text)
            if before is None or invoked.time > before.time:
                latest[line] = invoked

    def _firsts(self) -> Iterator[Event]:
        """The first commit of each message that was published."""
        seen: set[str] = set()
        for event in self._commits:
            if event.id not in seen and event.id in self._invoked:
                seen.add(event.id)
                yield event


def check(events: Iterable[Event], *, across: bool = False) -> Summary:
    """Raises AssertionError with every violation; returns what the history holds."""
    history = History(list(events), across=across)
    found = history.violations()
    by_fault: dict[str, list[str]] = defaultdict(list)
    for one in found:
        by_fault[one.fault].append(one.text)
    shown = "\n".join(f"{fault} ({len(texts)}): " + "; ".join(texts[:5]) for fault, texts in by_fault.items())
    assert not found, shown
    return history.summary
