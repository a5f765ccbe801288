"""`callboard server`: the embedded server."""

from __future__ import annotations

import typer

app = typer.Typer(
    help="The embedded server, which keeps its data in .callboard/.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
