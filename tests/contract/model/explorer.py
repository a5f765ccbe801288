"""Every interleaving within bounds: each state of the server is reached once, and every move is made from it.

The state at each depth of the search lies in a database of its own; going on from it is copying it into the next one.
Two states are the same when the server holds the same but for times and for names of workers: then their futures are
the same, and one of them is enough. So what is found holds for every schedule, however many lead through a state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

from .agreement import check
from .bus import Bus, Photo
from .schedule import Bounds, Move, Schedule
from .world import World, check_empty

DATABASES = 64  # the longest schedule

COPY = """
redis.call('SELECT', ARGV[2])
redis.call('FLUSHDB')
redis.call('SELECT', ARGV[1])
for _, name in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', name, name, 'DB', ARGV[2]) end
"""


class Explored(NamedTuple):
    """How much was looked at.

    Attributes:
        states: that are different.
        moves: made and checked.
        schedules: different ways from the beginning to an end through these states.
        longest: moves of the longest of them.
    """

    states: int
    moves: int
    schedules: int
    longest: int


class FoundError(AssertionError):
    """Server and reference part. `schedule`: the moves that lead there."""

    def __init__(self, schedule: list[Move], what: BaseException) -> None:
        super().__init__(f"{what}\nafter {len(schedule)} moves:\n" + "\n".join(map(str, schedule)))
        self.schedule = schedule


class Explorer:
    """One search. Takes the whole server, which has to be empty and to have DATABASES databases."""

    def __init__(self, url: str, bounds: Bounds, tell: Callable[[int, int], None] | None = None) -> None:
        self._bus = Bus(url, "explored")
        self._bounds = bounds
        self._tell = tell
        self._ways: dict[bytes, tuple[int, int]] = {}  # state -> ways to an end, moves of the longest
        self._path: list[Move] = []
        self._moves = 0

    def run(self) -> Explored:
        """Looks at everything.

        Raises:
            FoundError: something is wrong.
        """
        try:
            self._bus.wire.call(("SELECT", 0))
            self._bus.wire.call(("FLUSHDB",))
            world = World(
                self._bus, sorted({key for _, key in self._bounds.messages}), self._bounds.limit, True
            )
            start = Schedule.begin(world, self._bounds)
            ways, longest = self._explore(start, self._state(start))
        finally:
            self._bus.close()
        return Explored(len(self._ways), self._moves, ways, longest)

    def _explore(self, here: Schedule, state: bytes) -> tuple[int, int]:
        depth = len(self._path)
        ways = longest = 0
        goes_on = False
        for move in here.moves():
            self._path.append(move)
            there, found = self._try(here, move, depth)
            if found != state:
                goes_on = True
                more, further = self._ways.get(found) or self._explore(there, found)
                ways, longest = ways + more, max(longest, further + 1)
            self._path.pop()
        if not goes_on:
            self._check_end(here, depth)
            ways = 1
        self._ways[state] = ways, longest
        if self._tell is not None:
            self._tell(len(self._ways), self._moves)
        return ways, longest

    def _try(self, here: Schedule, move: Move, depth: int) -> tuple[Schedule, bytes]:
        self._moves += 1
        there = here.fork()
        self._bus.wire.call(("EVAL", COPY, 0, depth, depth + 1))
        self._bus.wire.call(("SELECT", depth + 1))
        try:
            there.do(move)
            return there, self._state(there)
        except Exception as error:
            raise FoundError(list(self._path), error) from error

    def _state(self, schedule: Schedule) -> bytes:
        world = schedule.world
        photo = self._bus.photo()
        check(world.reference, {hand.name: hand.everything for hand in world.hands}, photo)
        names = {hand.name: f"w{number}" for number, hand in enumerate(world.hands)}
        unsure = [hand.outlook for hand in world.hands]
        seen = repr((_essence(photo, names), unsure, schedule.bounds, schedule.published))
        return hashlib.blake2b(seen.encode(), digest_size=16).digest()

    def _check_end(self, here: Schedule, depth: int) -> None:
        """Nothing can happen any more: everything has to be handled."""
        self._bus.wire.call(("SELECT", depth))
        try:
            assert here.is_done, "no move leads on, and something is not handled"
            check_empty(self._bus)
        except AssertionError as error:
            raise FoundError(list(self._path), error) from error


TIMES = ("at", "asked", "first", "last", "worker", "entry")  # fields that differ from run to run
PASSING = (
    "stats:",
    "worker:",
    "types",
    "topics",
    "prefixes",
    "beats",
)  # facts that nothing depends on, and that never change


def _essence(photo: Photo, names: dict[str, str]) -> list[Any]:
    """What the future depends on."""
    seen: list[Any] = [sorted(name for name in photo.sets.get("workers", ()) if name not in names)]
    for suffix, fields in photo.hashes.items():
        if not suffix.startswith(PASSING):
            shown = _renamed(suffix, names)
            seen.append(
                (
                    shown,
                    sorted((field, _value(suffix, field, value, names)) for field, value in fields.items()),
                )
            )
    seen += [(suffix, items) for suffix, items in photo.lists.items() if not suffix.startswith("bell:")]
    seen += [(suffix, sorted(items)) for suffix, items in photo.sets.items() if suffix != "workers"]
    seen += [(suffix, text) for suffix, text in photo.strings.items() if suffix != "epoch"]
    seen += [(suffix, _stream(suffix, stream, names)) for suffix, stream in photo.streams.items()]
    return sorted(seen, key=repr)


def _renamed(text: str, names: dict[str, str]) -> str:
    for name, short in names.items():
        text = text.replace(name, short)
    return text


def _value(suffix: str, field: str, value: bytes, names: dict[str, str]) -> str:
    text = value.decode()
    if suffix.startswith("tries:"):
        attempts, _, deaths, _ = text.split(" ", 3)
        return f"{attempts} {deaths}"
    if suffix == "paused":
        return ""
    if suffix.startswith("busy:") or field == "w":
        return names.get(text, text and "gone")
    return "" if field in TIMES else text


def _stream(suffix: str, stream: Any, names: dict[str, str]) -> Any:
    entries = [
        (
            entry_id if suffix.startswith(("topic:", "inbox:")) else "",
            [(n, v) for n, v in fields.items() if n not in TIMES],
        )
        for entry_id, fields in stream.entries.items()
    ]
    groups = [
        (
            name,
            group.cursor,
            [(entry_id, names.get(consumer, "gone")) for entry_id, consumer in group.pending.items()],
        )
        for name, group in stream.groups.items()
    ]
    return entries, groups
