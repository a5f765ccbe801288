"""`callboard demo`"""

from __future__ import annotations

import typer


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
