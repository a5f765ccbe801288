"""Why a run failed, as an error that crosses processes."""

from __future__ import annotations

from callboard.broker.encoding.remote_errors import text_of, trace_of

from .errors import TeamRunError


def run_error(error: BaseException, where: str) -> TeamRunError:
    """The error of a run in which something was raised.

    Args:
        error: What was raised.
        where: Name of the member, or of the team's manager.
    """
    if isinstance(error, TeamRunError):
        return error
    return TeamRunError(type(error).__name__, text_of(error), where, trace_of(error)[-8000:])
