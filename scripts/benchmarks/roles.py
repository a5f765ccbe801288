"""Measures roles: scripts/bench roles [--rounds N].

Two roles that answer each other, so that one act follows from the other; and one role that gets many messages. Both in one
process, as MetaGPT was measured, see docs/roles.md.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from typing import Any, Final

from callboard.roles import Action, Environment, Message, Role

from .site import Site

LOOPS: Final = (100, 1000, 3000)  # acts
MANY: Final = 3000  # messages


def main() -> int:
    """Runs the measurements; returns the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/bench roles", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds of each, default 3")
    options = parser.parse_args()
    rows: dict[str, list[float]] = {}
    with Site() as site:
        for number in range(options.rounds):
            print(f"round {number + 1}", file=sys.stderr, flush=True)
            for name, value in asyncio.run(_round(site)).items():
                rows.setdefault(name, []).append(value)
    for name, values in rows.items():
        print(f"{name:58} {statistics.median(values):10.2f}   ({min(values):.2f} to {max(values):.2f})")
    return 0


class Say(Action):
    """Says next to nothing."""

    async def run(self, *args: Any, **kwargs: Any) -> str:
        """Says it."""
        return "x"


class Answer(Say):
    """The same, in answer."""


class Talker(Role):
    """Answers to Say and Answer."""

    def __init__(self, action: type[Action], hears: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.set_actions([action])
        self.watch([hears])


class Listener(Role):
    """Says nothing."""

    async def _act(self) -> None:
        return None


async def _round(site: Site) -> dict[str, float]:
    found: dict[str, float] = {}
    for count in LOOPS:
        found.update(await _loop(site, count))
    return {**found, **await _many(site)}


async def _loop(site: Site, count: int) -> dict[str, float]:
    with site.fresh() as namespace:
        async with Environment(
            url=site.url, namespace=namespace, max_rounds=count // 2, max_hops=count + 1
        ) as env:
            env.add_roles([Talker(Say, Answer, name="first"), Talker(Answer, Say, name="second")])
            await env.look()
            env.publish_message(Message("go", send_to="first"))
            begun, used = time.perf_counter(), time.process_time()
            await env.run()
            seconds, spent = time.perf_counter() - begun, time.process_time() - used
            if len(env.history) != count + 1:
                raise RuntimeError(f"{len(env.history) - 1} acts instead of {count}")
    return {
        f"{count} acts, one after the other: a second": count / seconds,
        f"{count} acts, one after the other: processor time of one, ms": spent / count * 1e3,
    }


async def _many(site: Site) -> dict[str, float]:
    with site.fresh() as namespace:
        async with Environment(url=site.url, namespace=namespace) as env:
            env.add_role(Listener())
            await env.look()
            begun = time.perf_counter()
            for _ in range(MANY):
                env.publish_message(Message("go"))
            called = time.perf_counter()
            await env.flush()
            sent = time.perf_counter()
            await env.run()
            done = time.perf_counter()
    return {
        "publish_message: calls a second": MANY / (called - begun),
        "publish_message: sent a second": MANY / (sent - begun),
        "publish_message: sent and answered to a second": MANY / (done - begun),
    }


if __name__ == "__main__":
    sys.exit(main())
