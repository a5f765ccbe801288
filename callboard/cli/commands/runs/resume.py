"""`callboard runs resume`."""

from __future__ import annotations

from callboard.cli.options import Namespace, Url
from callboard.cli.output import say
from callboard.cli.sessions import run

from .chosen import RunNames, chosen, leader


def resume(names: RunNames, url: Url = None, namespace: Namespace = None) -> None:
    """Let a run that was paused go on.

      callboard runs resume poets:app 3f2a

    Exit codes: 0 it goes on, 1 it has ended, or there is no such run; 2 wrong use, 3 no server, 4 no answer.
    """

    async def work() -> None:
        async with chosen(names, url, namespace) as (runtime, one), leader(runtime, one) as client:
            done = await client.resume(run_id=one.run_id)
            say(f"{one.run_id} goes on" if done else f"{one.run_id} was not paused")

    run(work())
