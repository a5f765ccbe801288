"""A process of the tests that hosts one member of a shared team: python -m tests.interop.member URL NAMESPACE MEMBER TURN.

In the turn of that number, if it is not 0, it stops in the middle, until it is killed.
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

from autogen_agentchat.teams import RoundRobinGroupChat

from callboard.broker import BrokerSettings
from callboard.interop.autogen import CallboardRuntime, SharedTeam

from .teams import NAMES, Listener

TURNS = 60


class Told(Listener):
    """Prints a line when its turn begins."""

    def __init__(self, name: str, last_turn: int = 0) -> None:
        super().__init__(name)
        self._until_end = last_turn

    async def on_messages(self, messages: Sequence[Any], cancellation_token: Any) -> Any:
        print(f"{self.name} speaks", flush=True)
        self._until_end -= 1
        if not self._until_end:
            print("stuck", flush=True)
            await asyncio.get_running_loop().create_future()
        return await super().on_messages(messages, cancellation_token)


def made(url: str, namespace: str, turns: int = TURNS, last_turn: int = 0) -> tuple[Any, SharedTeam]:
    """The team, as each process makes it."""
    settings = BrokerSettings(namespace=namespace, lease=2.0, beat_every=0.5)
    runtime = CallboardRuntime(url, settings=settings)
    team = RoundRobinGroupChat([Told(name, last_turn) for name in NAMES], max_turns=turns, runtime=runtime)
    return team, SharedTeam(team, "review")


async def main() -> None:
    url, namespace, member, last_turn = sys.argv[1:]
    _, shared = made(url, namespace, last_turn=int(last_turn))
    await shared.host(member)
    print("ready", flush=True)
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(main())
