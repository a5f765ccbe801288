"""`callboard schedules`: what is sent again and again. One file for each command."""

from __future__ import annotations

import typer

from callboard.cli.options import command

from .listing import list_them
from .orders import pause, remove, resume
from .run_now import run_now

schedules = typer.Typer(
    help="Schedules: what is sent again and again, and when.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

command(schedules, "list", list_them)
command(schedules, "pause", pause)
command(schedules, "resume", resume)
command(schedules, "remove", remove)
command(schedules, "run-now", run_now)
