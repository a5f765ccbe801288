"""Words of the command line that are known before typer reads it, and without it."""

from __future__ import annotations

from typing import Final

DEBUG: Final = "--debug"
"""Given anywhere before `--`."""

GROUPS: Final = ("runs", "schedules", "dead", "memory", "server")
"""The commands that are groups of commands."""
