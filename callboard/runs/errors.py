"""Errors of runs. `RunUnknownError`, of a run that can't be found, is that of teams."""

from __future__ import annotations

from callboard.foundation import ActorError
from callboard.teams.errors import RunUnknownError

__all__ = ["RunCancelledError", "RunUnknownError"]


class RunCancelledError(ActorError, RuntimeError):
    """A run was cancelled, and has no result; what was said until then can be read."""

    template = "The run {run_id!r} was cancelled, so that it has no result."

    run_id: str
