"""`callboard runs follow`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from callboard.cli.asking_teams import print_lines, user_name
from callboard.cli.exits import FAILED, CommandFailed
from callboard.cli.options import AsJson, Namespace, Url
from callboard.cli.sessions import run

from .chosen import RunNames, chosen

if TYPE_CHECKING:
    from callboard.runtime.runtime import RedisAgentRuntime
    from callboard.teams import RunSummary


def follow(names: RunNames, url: Url = None, namespace: Namespace = None, as_json: AsJson = False) -> None:
    """Read a run from its beginning, and along with it until it ends.

    Ctrl-C ends the reading only: the run goes on, and can be read again.

      callboard runs follow poets:app 3f2a
      callboard runs follow poets:app 3f2a --json

    Exit codes: 0 it was completed, 1 it failed or was cancelled, or there is no such run; 2 wrong use, 3 no server,
    130 stopped by Ctrl-C.
    """

    async def read() -> None:
        async with chosen(names, url, namespace) as (runtime, one):
            await _read(runtime, one, as_json)

    run(read())


async def _shown(stream: Any, runtime: RedisAgentRuntime) -> Any:
    from callboard.ui import Console

    return await Console(stream, output_stats=True, answers=runtime.inputs, by=user_name())


async def _read(runtime: RedisAgentRuntime, one: RunSummary, as_json: bool) -> None:
    from callboard.teams import TeamRunError
    from callboard.teams.reading import followed

    async with runtime.read_run(one.stream, live=one.state != "unknown") as entries:
        stream = followed(entries, one.run_id)
        try:
            await (print_lines(stream) if as_json else _shown(stream, runtime))
        except TeamRunError as error:
            raise CommandFailed(str(error), FAILED) from error
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():  # Ctrl-C
                raise
            raise CommandFailed(str(error), FAILED) from error
