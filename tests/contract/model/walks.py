"""Schedules drawn at random within wide bounds, each from an empty namespace to its end. A seed repeats one exactly."""

from __future__ import annotations

import random
from typing import NamedTuple

from .bus import Bus
from .schedule import Bounds, Move, Schedule
from .world import STREAMS, World, check_empty

LONGEST = 80  # moves before the rest is drained
LOOK = 0.25  # of the states are compared as a whole; the last one of a schedule always is
AUDITED = 0.5  # of the schedules have another agent type
EVENTFUL = 0.2  # of the moves are accidents, as far as the bounds allow them


class WrongError(AssertionError):
    """A schedule went wrong. `seed` repeats it."""

    def __init__(self, seed: str, moves: list[Move], what: BaseException) -> None:
        super().__init__(
            f"schedule {seed}: {what!r}\nafter {len(moves)} moves:\n" + "\n".join(map(str, moves))
        )
        self.seed = seed
        self.moves = moves

    def __reduce__(self) -> tuple[type[RuntimeError], tuple[str]]:
        return RuntimeError, (str(self),)  # as text it passes between processes


class Walked(NamedTuple):
    """How much was done."""

    schedules: int
    moves: int


def walk(bus: Bus, seed: str) -> int:
    """One schedule; returns its number of moves.

    Raises:
        WrongError: server and reference parted.
    """
    chance = random.Random(seed)
    bus.clear()
    moves: list[Move] = []
    try:
        audited = chance.random() < AUDITED
        world = World(bus, "ab", chance.randint(1, 4), audited=audited)
        schedule = Schedule.begin(world, _bounds(chance, audited))
        while not _is_over(schedule) and len(moves) < LONGEST:
            moves.append(_choose(schedule, chance))
            schedule.do(moves[-1])
            if chance.random() < LOOK:
                schedule.world.check()
        _finish(schedule)
    except Exception as error:
        raise WrongError(seed, moves, error) from error
    return len(moves)


def _bounds(chance: random.Random, audited: bool) -> Bounds:
    messages = tuple((chance.choice(STREAMS), chance.choice("aab")) for _ in range(chance.randint(3, 6)))
    names = ["crashes", "losses", "retries", "letters", "releases", "beats", "pauses", "groups", "changes"]
    names += ["asks", "waits", "bells"]
    if not audited:  # the other type does not know how to forget
        names.append("tails")
    return Bounds(messages, chance.randint(1, 3), **{name: chance.randint(0, 3) for name in names})


def _choose(schedule: Schedule, chance: random.Random) -> Move:
    possible = list(schedule.moves())
    dear = [move for move in possible if move.cost]
    cheap = [move for move in possible if not move.cost]
    return chance.choice(dear if dear and (not cheap or chance.random() < EVENTFUL) else cheap)


def _is_over(schedule: Schedule) -> bool:
    return schedule.is_done and not any(hand.unsure or hand.behind for hand in schedule.world.hands)


def _finish(schedule: Schedule) -> None:
    world = schedule.world
    while schedule.published < len(schedule.bounds.messages):
        schedule.do(Move("publish"))
    if not world.reference.is_done:
        world.drain()
    elif world.auditing is not None:
        world.resume_all()
        world.auditing.drain()
    for hand in world.gone:
        world.zombie(hand)
    for hand in world.hands:
        world.turn(hand, count=8)
        assert not hand.held
    world.check()
    check_empty(world.bus)


def walk_many(url: str, seed: str, first: int, count: int) -> Walked:
    """Schedules number `first` and the following ones of a seed."""
    bus = Bus(url)
    try:
        return Walked(count, sum(walk(bus, f"{seed}:{number}") for number in range(first, first + count)))
    finally:
        bus.clear()
        bus.close()
