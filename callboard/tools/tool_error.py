"""The root of the errors of tools: errors.py has them all."""

from __future__ import annotations

from callboard.errors import ActorError


class ToolError(ActorError):
    """The root of everything that tools and workbenches raise."""
