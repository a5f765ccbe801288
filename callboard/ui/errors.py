"""Errors of what shows runs."""

from __future__ import annotations

from callboard.errors import ActorError


class NotAStreamError(ActorError, TypeError):
    """Something else was given where a run is needed that is still to be read."""

    template = "Console shows a run as it goes on: give it team.run_stream(task=...), without `await`, and not a {given}"

    given: str


class NoResultError(ActorError, ValueError):
    """A stream ended without a TaskResult or a Response."""

    template = "No TaskResult or Response was processed: the stream has to end with one."
