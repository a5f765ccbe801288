"""`callboard health`: whether the worker of this container works."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from callboard.cli.exits import FAILED, bad_use
from callboard.cli.options import positive_duration
from callboard.cli.output import say


def health(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Its health file. Default: CALLBOARD_HEALTH_FILE."),
    ] = None,
    within: Annotated[
        float,
        typer.Option(
            metavar="DURATION",
            parser=positive_duration,
            help="How old the file may be: a few beats, or a lease. Default: 15 s.",
            show_default=False,
        ),
    ] = 15.0,
) -> int:
    """Say whether a worker works, for a container's health check. It has to be started with --health-file.

    The file is renewed with each heartbeat that the server answered, about once a second, and removed when the
    worker stops. It is looked at, and nothing else is: the check costs no connection.

      callboard worker counting:app --health-file /tmp/health
      callboard health /tmp/health

    Exit codes: 0 it works, 1 it does not, 2 wrong use.
    """
    from callboard.broker.redis.client.identity import age
    from callboard.broker.settings import variable

    given = file or variable("health_file")
    if given is None:
        bad_use(
            "name the health file, or set CALLBOARD_HEALTH_FILE: the one that the worker was started with"
        )
    seconds = age(Path(given))
    if seconds is None:
        say(f"no worker works: there is no {given}")
    elif seconds > within:
        say(f"the worker does not work: its last beat that the server answered was {seconds:.0f} s ago")
    else:
        say(f"the worker works: its last beat was {seconds:.1f} s ago")
        return 0
    return FAILED
