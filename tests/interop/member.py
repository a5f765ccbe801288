"""A process of the tests that hosts one member of a shared team: python -m tests.interop.member URL NAMESPACE MEMBER."""

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

    async def on_messages(self, messages: Sequence[Any], cancellation_token: Any) -> Any:
        print(f"{self.name} speaks", flush=True)
        return await super().on_messages(messages, cancellation_token)


def made(url: str, namespace: str, turns: int = TURNS) -> tuple[Any, SharedTeam]:
    """The team, as each process makes it."""
    settings = BrokerSettings(namespace=namespace, lease=2.0, beat_every=0.5)
    runtime = CallboardRuntime(url, settings=settings)
    team = RoundRobinGroupChat([Told(name) for name in NAMES], max_turns=turns, runtime=runtime)
    return team, SharedTeam(team, "review")


async def main() -> None:
    url, namespace, member = sys.argv[1:]
    _, shared = made(url, namespace)
    await shared.host(member)
    print("ready", flush=True)
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(main())
