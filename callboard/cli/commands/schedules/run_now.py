"""`callboard schedules run-now`."""

from __future__ import annotations

from typing import Annotated

import typer

from callboard.cli.exits import FAILED, CommandFailed
from callboard.cli.options import Namespace, Target, Url
from callboard.cli.output import say
from callboard.cli.sessions import publisher, run


def run_now(
    target: Target,
    name: Annotated[str, typer.Argument(metavar="SCHEDULE", help="The name of the schedule.")],
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Send at once what a schedule sends. When it is due next stays as it is.

      callboard schedules run-now office:app weekly

    Exit codes: 0 sent, 1 the app declares no such schedule, 2 wrong use, 3 no server.
    """
    from callboard.process.loading import load_app

    app = load_app(target)

    async def work() -> str:
        from callboard.runtime.errors import UnknownScheduleError

        async with publisher(app, url, namespace) as runtime:
            try:
                return await runtime.schedules.run_now(name)
            except UnknownScheduleError as error:
                raise CommandFailed(str(error), FAILED) from error

    say(run(work()))
