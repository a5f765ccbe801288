"""The plan of a run: faults and their times as values, drawn from one seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from .faults import Act, Fault, all_faults
from .setting import Setting

MIXED_STEPS, MIXED_FAULTS = 3, 3

SETTINGS: Final[dict[Act, Setting]] = {
    "processes": Setting(),
    "network": Setting(proxied=True, every=0.4),
    "server": Setting(),
    "loss": Setting(),
    "timers": Setting(workers=2, publishers=0),
    "above": Setting(workers=1, publishers=0),
}
LANES: Final[tuple[tuple[Act, ...], ...]] = (
    ("processes", "server"),
    ("network", "above"),
    ("timers", "loss"),
)
"""Acts of a lane follow each other; the lanes go on at the same time, each on servers of its own."""


@dataclass(frozen=True, slots=True)
class Step:
    """Faults that strike at the same time."""

    faults: tuple[Fault, ...]

    @property
    def seconds(self) -> float:
        return max(fault.seconds for fault in self.faults)


@dataclass(frozen=True, slots=True)
class ActPlan:
    """One place and what happens there, one step after the other. `seed` is what the faults draw from on the way."""

    name: str
    setting: Setting
    steps: tuple[Step, ...]
    seed: str

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)

    @property
    def is_mixed(self) -> bool:
        """Figures that are measured while several faults strike say nothing."""
        return any(len(step.faults) > 1 for step in self.steps)


Lane = tuple[ActPlan, ...]


def whole(seed: int) -> tuple[Lane, ...]:
    """Every fault alone, then several at once."""
    chance = random.Random(seed)
    faults = all_faults()
    lanes = [
        [_alone(act, [cls for cls in faults.values() if cls.act == act], chance, seed) for act in acts]
        for acts in LANES
    ]
    lanes[1].append(mixed(seed))
    return tuple(tuple(act for act in lane if act.steps) for lane in lanes)


def only(seed: int, names: Sequence[str]) -> tuple[Lane, ...]:
    """These faults alone, one act after the other."""
    chance = random.Random(seed)
    faults = all_faults()
    chosen = [faults[name] for name in names]
    acts = [_alone(act, [cls for cls in chosen if cls.act == act], chance, seed) for act in SETTINGS]
    return (tuple(act for act in acts if act.steps),)


def _alone(act: Act, classes: Sequence[type[Fault]], chance: random.Random, seed: int) -> ActPlan:
    steps = tuple(Step((cls.draw(chance),)) for cls in classes)
    return ActPlan(act, SETTINGS[act], steps, f"{seed} {act}")


def mixed(seed: int, steps: int = MIXED_STEPS, lease: float = 1.0) -> ActPlan:
    """Several faults at once, several times."""
    chance = random.Random(f"{seed} mixed")
    able = [cls for cls in all_faults().values() if cls.mixes]
    drawn = tuple(
        Step(tuple(cls.draw(chance) for cls in chance.sample(able, min(MIXED_FAULTS, len(able)))))
        for _ in range(steps)
    )
    setting = Setting(proxied=True, workers=chance.randint(2, 4), lease=lease)
    return ActPlan("mixed", setting, drawn, f"{seed} mixed")


def soak(seed: int) -> Iterator[ActPlan]:
    """Mixed acts without end, each from the next seed."""
    for number in range(seed, seed + 1_000_000):
        chance = random.Random(f"{number} soak")
        yield mixed(number, steps=8, lease=chance.choice((1.0, 2.0, 5.0)))
