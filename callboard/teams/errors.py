"""Errors of teams."""

from __future__ import annotations

from callboard.foundation import ActorError


class TeamError(ActorError):
    """The root of what is wrong with a team, or with what it is asked for."""


class TeamDeclarationError(TeamError, ValueError, TypeError):
    """A team can't be made like this, or can't be dumped; ValueError and TypeError, as in AutoGen."""

    template = "{reason}"

    reason: str


class SpeakerChoiceError(TeamError, ValueError):
    """A strategy could not choose a member: a function, a model or a handoff names none; ValueError, as in AutoGen."""

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


class RunUnknownError(TeamError, LookupError):
    """A run can't be found: no id begins like this, several do, or its events are not kept any more.

    Attributes:
        run_id: What was asked for.
        reason: Why not, and what is near.
    """

    template = "The run {run_id!r} can't be found: {reason}"

    run_id: str
    reason: str


class RunCancelledError(TeamError, RuntimeError):
    """A run was cancelled, and has no result; what was said until then can be read.

    Who cancels by its own token, or is itself cancelled, gets asyncio.CancelledError instead.
    """

    template = "The run {run_id!r} was cancelled, so that it has no result."
    permanent = True  # it stays cancelled, however often a handler asks for its result

    run_id: str


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


class RunBudgetExceededError(TeamRunError):
    """A run has used what its budget allows, and was ended before it could use more. What was said is kept.

    Attributes:
        unit: "tokens", "USD", "turns" or "seconds".
        limit: What the run, or the nested team's, may use.
        spent: What it had used, or set aside for requests under way, when it asked for more.
    """

    template = "The run has reached its budget: {text} (in {where}). Give it a larger one, or a smaller task."
    permanent = True

    unit: str = "tokens"
    limit: float = 0.0
    spent: float = 0.0


class TeamForkError(TeamError, ValueError):
    """A conversation can't be forked there, or not to that name.

    Attributes:
        team: Name of the team.
        conversation: The conversation.
        where: After which turn.
        reason: Why not.
    """

    template = "The conversation {conversation!r} of the team {team!r} can't be forked{at}: {reason}."

    team: str
    conversation: str
    where: str
    reason: str

    @property
    def at(self) -> str:
        """With a space before it."""
        return f" {self.where}" if self.where else ""


class TeamOutputError(TeamError, ValueError):
    """The last message of a run is not what the team was to answer with.

    Attributes:
        team: Name of the team.
        content_type: Name of the class that its answer was to be of.
        source: Who said the last message; "": nothing was said.
        problem: What did not fit.
    """

    template = "The run of the team {team!r} has ended without a {content_type}{where}: {problem}."

    team: str
    content_type: str
    source: str
    problem: str

    @property
    def where(self) -> str:
        """Where it was looked for."""
        return f" in the last message, of {self.source!r}" if self.source else ""


class TeamMemberError(TeamError, RuntimeError):
    """A member could not do what the team was asked for, such as to forget the conversation.

    Attributes:
        team: Name of the team.
        member: Name of the member.
        what: What it could not do.
        reason: Class and text of what was raised.
    """

    template = (
        "The member {member!r} of the team {team!r} could not {what}: {reason}. Others may have done it: "
        "ask again when the reason is mended."
    )

    team: str
    member: str
    what: str
    reason: str


class TeamStateError(TeamError, ValueError):
    """A saved state does not fit the team."""

    template = "This state does not fit the team {team!r}: {reason}."

    team: str
    reason: str
