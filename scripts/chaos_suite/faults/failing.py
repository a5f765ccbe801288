"""Handlers that fail: they raise, take their process with them, or never end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tests.helpers.eventually import eventually

from ..site import Site
from ..workload import ATTEMPTS, Behaviour
from .base import Act, Fault

EXIT_CODE = 7  # of a job with the behaviour `exit`


@dataclass(frozen=True, slots=True)
class Failing(Fault):
    """A job that fails for ever, and good ones around it, also behind it for the same key."""

    behaviour: ClassVar[Behaviour]
    act: ClassVar[Act] = "processes"
    promise: ClassVar[str] = (
        "exactly max_attempts attempts, then a dead letter; what waits behind it goes on, others are not touched"
    )

    async def strike(self, site: Site) -> None:
        site.fleet.tolerated.add(EXIT_CODE)
        key = f"failing.{self.behaviour}"
        good = [await site.publish(key, topic="frail")]
        bad = await site.publish(key, self.behaviour, topic="frail")
        site.dead[bad] = ATTEMPTS
        good += [await site.publish(key, topic="frail"), await site.publish(f"{key}.other", topic="frail")]

        async def is_dead() -> bool:
            return bad in {letter.id for letter in await site.space.letters()}

        await eventually(is_dead, 30, what=f"a dead letter of {bad}")
        await site.committed(good)


@dataclass(frozen=True, slots=True)
class HandlerRaises(Failing):
    """It raises."""

    behaviour: ClassVar[Behaviour] = "raise"
    name: ClassVar[str] = "handler-raises"
    summary: ClassVar[str] = "a handler raises each time"
    seconds: ClassVar[float] = 1.0


@dataclass(frozen=True, slots=True)
class HandlerExits(Failing):
    """It ends its process."""

    behaviour: ClassVar[Behaviour] = "exit"
    name: ClassVar[str] = "handler-exits"
    summary: ClassVar[str] = "a handler ends its process each time (os._exit), with other handlers under way"
    seconds: ClassVar[float] = 5.0


@dataclass(frozen=True, slots=True)
class HandlerHangs(Failing):
    """It never ends."""

    behaviour: ClassVar[Behaviour] = "hang"
    name: ClassVar[str] = "handler-hangs"
    summary: ClassVar[str] = "a handler never ends; it is cancelled after its max_runtime"
    seconds: ClassVar[float] = 2.5
