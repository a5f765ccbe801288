"""Many runs of AutoGen's at once, in memory: `python -m scripts.benchmarks.autogen_runs RUNS TURNS` prints runs a second."""

# pyright: reportMissingImports=false
from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from typing import Any

from autogen_agentchat.agents import BaseChatAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat

THINKING = 0.02  # seconds


class Slow(BaseChatAgent):
    """Takes its time."""

    @property
    def produced_message_types(self) -> Sequence[type[Any]]:
        return (TextMessage,)

    async def on_messages(self, messages: Sequence[Any], cancellation_token: Any) -> Any:
        await asyncio.sleep(THINKING)
        return Response(chat_message=TextMessage(content="heard", source=self.name))

    async def on_reset(self, cancellation_token: Any) -> None:
        pass


async def main(runs: int, turns: int) -> None:
    """Prints runs a second."""
    teams = [
        RoundRobinGroupChat([Slow(name, name) for name in ("ann", "bob", "cy")], max_turns=turns)
        for _ in range(runs)
    ]
    begun = time.perf_counter()
    await asyncio.gather(*(team.run(task=f"task {number}") for number, team in enumerate(teams)))
    print(runs / (time.perf_counter() - begun))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
