"""A team's state is saved again and again while it speaks, and its processes are killed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from callboard.broker import BrokerSettings
from callboard.messages import BaseChatMessage
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import TeamClient

from ..above.beside import Beside
from ..above.talk import NAME, TURNS, team, thread_of, torn
from ..site import Site
from .base import Act, Fault, require

TASK = "go"
MEMBERS = (f"{NAME}.a", f"{NAME}.b")
PAUSE = 0.01  # seconds between two states
AFTER = 0.15  # seconds after which a process is killed: in the middle of the turns


@dataclass(frozen=True, slots=True)
class Saving(Fault):
    """Saves in the middle of turns, and loads what was saved into other conversations."""

    name: ClassVar[str] = "saving"
    act: ClassVar[Act] = "above"
    summary: ClassVar[str] = (
        "save_state of a team again and again while it speaks; its manager and its members are killed with -9 meanwhile"
    )
    promise: ClassVar[str] = (
        "each state is one moment: members remember what they say in its thread, and loaded it goes on to the same words"
    )
    seconds: ClassVar[float] = 6.0

    async def strike(self, site: Site) -> None:
        expected = _said((await team().run(task=TASK)).messages)
        async with Beside(site, "talk", "scripts.chaos_suite.above.talk:app") as beside:
            settings = BrokerSettings(namespace=beside.namespace)
            async with RedisAgentRuntime(beside.url, settings=settings) as runtime:
                states: list[Mapping[str, Any]] = []
                for dies in ((NAME,), MEMBERS):
                    client = TeamClient(runtime, NAME, f"dies {dies[0]}")
                    states += await _saved_while_killed(beside, client, dies, expected)
                broken = [problem for state in states for problem in torn(state)]
                require(not broken, broken[:3])
                require(len(states) > TURNS, f"only {len(states)} states")
                await beside.worker()
                chosen = states[:: max(1, len(states) // 3)]
                for number, state in enumerate(chosen):
                    await _goes_on(TeamClient(runtime, NAME, f"loaded {number}"), state, expected)


async def _saved_while_killed(
    beside: Beside, client: TeamClient, dies: tuple[str, ...], expected: list[str]
) -> list[Mapping[str, Any]]:
    """The states of a run whose process for these agent types is killed, and started again."""
    stays = MEMBERS if dies == (NAME,) else (NAME,)
    other, victim = await beside.worker(*stays), await beside.worker(*dies)
    states: list[Mapping[str, Any]] = []
    running = asyncio.ensure_future(client.run(task=TASK))

    async def save() -> None:
        while not running.done():
            states.append(await client.save_state())
            await asyncio.sleep(PAUSE)

    saving = asyncio.ensure_future(save())
    await asyncio.sleep(AFTER)
    victim.kill()
    successor = await beside.worker(*dies)
    said = _said((await running).messages)
    await saving
    require(said == expected, f"{said} instead of {expected}")
    for process in (other, successor):
        process.kill()
    return states


async def _goes_on(client: TeamClient, state: Mapping[str, Any], expected: list[str]) -> None:
    thread = [message["content"] for message in thread_of(state)]
    if not thread or len(thread) == len(expected):
        return
    await client.load_state(state)
    rest = _said((await client.run()).messages)
    require([*thread, *rest][: len(expected)] == expected, [*thread, "|", *rest])


def _said(messages: Any) -> list[str]:
    return [one.to_text() for one in messages if isinstance(one, BaseChatMessage)]
