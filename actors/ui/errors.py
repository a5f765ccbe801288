"""Errors of what shows runs."""

from __future__ import annotations

from callboard.errors import ActorError


class NoResultError(ActorError, ValueError):
    """A stream ended without a TaskResult or a Response."""

    template = "No TaskResult or Response was processed: the stream has to end with one."
