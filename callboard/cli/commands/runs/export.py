"""`callboard runs export`."""

from __future__ import annotations

from callboard.cli.exits import FAILED, CommandFailed
from callboard.cli.options import Namespace, Url
from callboard.cli.output import say
from callboard.cli.sessions import run

from .chosen import RunNames, chosen, whose


def export(names: RunNames, url: Url = None, namespace: Namespace = None) -> None:
    """Write a run to stdout as a cassette. These are JSON lines: what models and tools answered, and what was said.

    The run has to be started with `record=True`, and to have ended. `callboard.testing.replay` replays it in a test.

      callboard runs export poets:app 3f2a > sea.jsonl

    Exit codes: 0 written, 1 it was not recorded or goes on, or there is no such run; 2 wrong use, 3 no server.
    """

    async def read() -> str:
        from callboard.testing import CassetteError

        async with chosen(names, url, namespace) as (runtime, one):
            if one.ended is None:
                raise CommandFailed(f"the run {one.run_id} goes on: it is {one.state}", FAILED)
            client = await whose(runtime, one, needs_worker=False)
            try:
                return (await client.export(one.run_id)).dump()
            except CassetteError as error:
                raise CommandFailed(str(error), FAILED) from error

    say(run(read()).rstrip("\n"))
