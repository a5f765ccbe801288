"""Errors of runs. Those of a run that can't be found, and of one that was cancelled, are those of teams."""

from __future__ import annotations

from callboard.foundation import ActorError
from callboard.teams.errors import RunCancelledError, RunUnknownError

__all__ = ["LoopError", "RunCancelledError", "RunDeclarationError", "RunError", "RunUnknownError"]


class RunError(ActorError):
    """The root of what is wrong with a run, or with what it is asked for."""


class RunDeclarationError(RunError, ValueError, TypeError):
    """A run can't begin like this, or can't be given this: a context variable, a processor of its events."""

    template = "{reason}"
    permanent = True

    reason: str


class LoopError(RunError, RuntimeError):
    """Something is called from a place where it would wait for itself.

    Attributes:
        what: The call.
        reason: Why it can't wait there, and what to call instead.
    """

    template = "{what} can't wait here: {reason}"

    what: str
    reason: str
