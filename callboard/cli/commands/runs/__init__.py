"""`callboard runs`: the runs of teams. One file for each command, and a line below.

A command takes a run as `RunNames` and finds it with `chosen`: see show.py for one that reads, cancel.py for one that gives
an order.
"""

from __future__ import annotations

import typer

from callboard.cli.numbers import NumberCommand
from callboard.cli.options import command

from .answer import answer
from .cancel import cancel
from .export import export
from .follow import follow
from .fork import fork
from .listing import list_them
from .pause import pause
from .resume import resume
from .show import show

runs = typer.Typer(
    help="Runs of teams: look at them, and answer, pause or cancel them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

command(runs, "list", list_them)
command(runs, "show", show)
command(runs, "follow", follow)
command(runs, "answer", answer, NumberCommand)
command(runs, "cancel", cancel)
command(runs, "pause", pause)
command(runs, "resume", resume)
command(runs, "fork", fork)
command(runs, "export", export)
