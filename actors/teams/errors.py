"""Errors of teams."""

from __future__ import annotations

from callboard.errors import ActorError


class TeamError(ActorError):
    """The root of what is wrong with a team, or with what it is asked for."""


class TeamDeclarationError(TeamError, ValueError):
    """A team can't be made like this."""

    template = "{reason}"

    reason: str


class TeamBusyError(TeamError, ValueError):
    """A task was given to a conversation that has a run under way; ValueError, as in AutoGen."""

    template = (
        "The team {team!r} is already running{where}. Wait for its end, "
        "or say what to do with if_busy='enqueue' or 'interrupt'."
    )

    team: str
    conversation: str = ""
    run_id: str = ""

    @property
    def where(self) -> str:
        """In which conversation."""
        return f" in the conversation {self.conversation!r}" if self.conversation else ""


class TeamTaskError(TeamError, ValueError):
    """The team can't carry out this task; ValueError, as in AutoGen."""

    template = "The team {team!r} can't carry out this task: {reason}"

    team: str
    reason: str


class TeamNotRunError(TeamError, RuntimeError):
    """Something was asked of a team that it can't do at this moment; RuntimeError, as in AutoGen."""

    template = "The team {team!r} {reason}."

    team: str
    reason: str


class TeamRunError(TeamError, RuntimeError):
    """A run failed; RuntimeError, as in AutoGen.

    Attributes:
        error_type: Class of what a member, a strategy or a condition raised.
        text: Its text.
        where: The member, or what else it was.
        traceback: Where it was raised, as text; "" when that is not known.
    """

    template = "{error_type}: {text} (in {where}){shown_traceback}"

    error_type: str
    text: str
    where: str
    traceback: str = ""

    @property
    def shown_traceback(self) -> str:
        """The traceback on lines of its own."""
        return f"\nTraceback:\n{self.traceback}" if self.traceback else ""


class TeamStateError(TeamError, ValueError):
    """A saved state does not fit the team."""

    template = "This state does not fit the team {team!r}: {reason}."

    team: str
    reason: str
