"""`callboard runs cancel`."""

from __future__ import annotations

from callboard.cli.options import Namespace, Url
from callboard.cli.output import say
from callboard.cli.sessions import run

from .chosen import RunNames, chosen, leader


def cancel(names: RunNames, url: Url = None, namespace: Namespace = None) -> None:
    """Cancel a run. It ends now, whoever is speaking is stopped, and what was said is kept.

      callboard runs cancel poets:app 3f2a

    Exit codes: 0 cancelled, 1 it has ended already, or there is no such run; 2 wrong use, 3 no server, 4 no answer.
    """

    async def work() -> None:
        async with chosen(names, url, namespace) as (runtime, one), leader(runtime, one) as client:
            await client.abort(one.run_id)
            say(f"{one.run_id} is cancelled")

    run(work())
