"""Why a run failed, as an error and as a message that crosses processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from callboard.broker.buried import Buried
from callboard.broker.encoding.remote_errors import text_of, trace_of

from .budget import Overspent, overspent_by
from .errors import RunBudgetExceededError, TeamRunError
from .orders import TurnFailed

TRACEBACK: Final = 8000  # characters of it that are kept, the last ones


def run_error(error: BaseException, where: str) -> TeamRunError:
    """The error of a run in which something was raised.

    Args:
        error: What was raised.
        where: Name of the member, or of the team's manager.
    """
    if isinstance(error, TeamRunError):
        return error
    overspent = overspent_by(error)
    if overspent is not None:
        return budget_error(overspent, where)
    return TeamRunError(type(error).__name__, text_of(error), where, trace_of(error)[-TRACEBACK:])


def budget_error(overspent: Overspent, where: str) -> RunBudgetExceededError:
    """The error of a run that has used what it may."""
    name = RunBudgetExceededError.__name__
    return RunBudgetExceededError(
        name, overspent.text, where, "", overspent.unit, overspent.limit, overspent.spent
    )


def failure_of(error: BaseException, where: str, turn: int = 0) -> TurnFailed:
    """The same as a message."""
    failed = run_error(error, where)
    return TurnFailed(
        turn=turn,
        error_type=failed.error_type,
        text=failed.text,
        where=failed.where,
        traceback=failed.traceback,
        overspent=_overspent(failed),
    )


def _overspent(failed: TeamRunError) -> Overspent | None:
    if not isinstance(failed, RunBudgetExceededError):
        return None
    return Overspent(unit=failed.unit, limit=failed.limit, spent=failed.spent)


def failure_by(buried: Buried, where: str, turn: int) -> TurnFailed:
    """The same of a message that became a dead letter."""
    error_type, _, text = buried.error.partition(": ")
    return TurnFailed(
        turn=turn,
        error_type=error_type or buried.reason,
        text=f"{text or buried.reason} (dead letter {buried.message_id}, {buried.reason})",
        where=where,
    )


def answer_id(turn: int, asked: str) -> str:
    """The id of the message that answers a turn: it tells which turn, should the message become a dead letter.

    Args:
        turn: Number of the turn.
        asked: Id of the message that asked for it.
    """
    return f"{turn}@{asked}"


def turn_answered(buried: Buried, last: int) -> int:
    """The turn that a message that became a dead letter was about.

    Args:
        buried: The dead letter.
        last: For one whose id does not say it: the last turn that was taken.
    """
    number, at, _ = buried.message_id.partition("@")
    return int(number) if at and number.isdecimal() else last


def unborn_text(unborn: Mapping[str, str]) -> str:
    """Why there is no run in a fork in which a member could not take over its part.

    Args:
        unborn: The members, and the error of each.
    """
    reasons = "; ".join(f"{name!r} could not take over its part ({error})" for name, error in unborn.items())
    return f"this fork is not whole: {reasons}. Replay that dead letter, or fork again under another id"


def error_of(failed: TurnFailed) -> TeamRunError:
    """The error that such a message tells of."""
    if failed.overspent is not None:
        return budget_error(failed.overspent, failed.where)
    return TeamRunError(failed.error_type, failed.text, failed.where, failed.traceback)
