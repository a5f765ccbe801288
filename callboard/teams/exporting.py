"""A run that has ended, as a cassette."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from callboard.messages.base import BaseChatMessage
from callboard.runtime.taping import Take
from callboard.testing.cassette import Cassette, said_in
from callboard.testing.errors import CassetteError

from .orders import RunEnded, Shown
from .reading import RunReading
from .takes import takes_of

if TYPE_CHECKING:
    from callboard.runtime.runtime import RedisAgentRuntime


async def cassette_of(
    runtime: RedisAgentRuntime, team: str, stream: str, entries: AsyncGenerator[Any, None]
) -> Cassette:
    """What a run's two streams have, as a cassette.

    Args:
        runtime: Reads them.
        team: Name of the team.
        stream: Of the run.
        entries: Those of the run, from its start to its end.

    Raises:
        CassetteError: The run was not recorded, or not completely (a ValueError).
    """
    runtime.registry.register(Take)
    takes: list[Take] = []
    async with runtime.read_run(takes_of(stream), live=False) as found:
        takes += [entry.event async for entry in found]
    if not takes:
        raise CassetteError(f"the run {stream!r} was not recorded; start it with record=True")
    lost = [take.agent for take in takes if take.answer is None]
    if lost:
        raise CassetteError(f"an answer to {lost[0]!r} was larger than max_payload, and was not recorded")
    task, reading = "", RunReading(shows_task=True)
    async for entry in entries:
        if isinstance(entry.event, Shown):
            list(reading.show(entry.event))
            if entry.event.is_task:
                texts = [one.to_text() for one in entry.event.messages if isinstance(one, BaseChatMessage)]
                task = "\n".join(texts)
        elif isinstance(entry.event, RunEnded):
            result = reading.result(entry.event)
            return Cassette(team, task, takes, said_in(result.messages), result.stop_reason)
    raise CassetteError(f"the run {stream!r} has not ended")
