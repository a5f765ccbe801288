"""`callboard runs fork`."""

from __future__ import annotations

from typing import Annotated

import typer

from callboard.cli.exits import FAILED, CommandFailed
from callboard.cli.options import Namespace, Url
from callboard.cli.output import say
from callboard.cli.sessions import run

from .chosen import RunNames, chosen, whose


def fork(
    names: RunNames,
    conversation: Annotated[
        str, typer.Option("--conversation", help="Id of the new conversation, in which nothing was said yet.")
    ],
    at: Annotated[
        int | None,
        typer.Option(
            "--at", help="Number of a turn of the run's conversation; else the last one of the run."
        ),
    ] = None,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Make a new conversation of a run's, up to a turn. Nothing is paid for again.

    The conversation itself goes on untouched. A wrong number is answered with those of its last turns.

      callboard runs fork poets:app 3f2a --conversation sea-2
      callboard runs fork poets:app 3f2a --at 4 --conversation sea-3
      callboard ask poets:app poets "And now shorter" --conversation sea-3

    Exit codes: 0 forked, 1 there is no such turn or run, or there is such a conversation; 2 wrong use, 3 no server,
    4 no answer.
    """

    async def work() -> None:
        from callboard.teams import TeamForkError

        async with chosen(names, url, namespace) as (runtime, one):
            client = await whose(runtime, one)
            try:
                made = await client.fork(conversation, at=at, run_id="" if at is not None else one.run_id)
            except TeamForkError as error:
                raise CommandFailed(str(error), FAILED) from error
            say(f"{client.conversation} is forked to {made.conversation}: the team is {client.team}")

    run(work())
