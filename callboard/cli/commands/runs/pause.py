"""`callboard runs pause`."""

from __future__ import annotations

from typing import Annotated

import typer

from callboard.cli.options import Namespace, Url
from callboard.cli.output import say
from callboard.cli.sessions import run

from .chosen import RunNames, chosen, leader


def pause(
    names: RunNames,
    now: Annotated[
        bool,
        typer.Option(
            "--now", help="Interrupt who is speaking as well; the turn begins again after `resume`."
        ),
    ] = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Pause a run: nobody begins to speak until `callboard runs resume`.

    It stays paused when everything is restarted. With --now the turn under way is begun again afterwards; answers of
    models and results of tools that were recorded in it are not made again.

      callboard runs pause poets:app 3f2a
      callboard runs pause poets:app 3f2a --now

    Exit codes: 0 paused, 1 it has ended, or there is no such run; 2 wrong use, 3 no server, 4 no answer.
    """

    async def work() -> None:
        async with chosen(names, url, namespace) as (runtime, one), leader(runtime, one) as client:
            done = await client.pause(now=now, run_id=one.run_id)
            say(f"{one.run_id} is paused" if done else f"{one.run_id} was paused already")

    run(work())
