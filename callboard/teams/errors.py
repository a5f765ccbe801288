"""Errors of teams."""

from __future__ import annotations

from collections.abc import Sequence

from callboard.foundation import ActorError


class TeamError(ActorError):
    """The root of what is wrong with a team, or with what it is asked for."""


class TeamDeclarationError(TeamError, ValueError):
    """A team can't be made like this."""

    template = "{reason}"

    reason: str


class GraphConditionError(TeamError, ValueError):
    """A graph with a function as a condition can't be dumped: nothing could make the function again."""

    template = (
        "The condition of an edge to {target!r} is a function, which can't be dumped. "
        "Use a text as the condition, or make the graph in the program that loads the rest."
    )

    target: str


class ParticipantTypeError(TeamError, TypeError):
    """A team can't have a team as a member, and was given one; TypeError, as in AutoGen."""

    template = "Participant {participant!r} must be a ChatAgent: a {team} can't have teams as members."

    participant: str
    team: str


class SpeakerChoiceError(TeamError, ValueError):
    """A function of the user's chose somebody who can't speak; ValueError, as in AutoGen."""

    template = "{reason}"

    reason: str


class LedgerError(TeamError, ValueError):
    """The model of a MagenticOneGroupChat did not write a ledger that can be read; ValueError, as in AutoGen."""

    template = "{reason}"

    reason: str


class HandoffTargetError(TeamError, ValueError):
    """A conversation was handed over to somebody who is no member; ValueError, as in AutoGen."""

    template = (
        "The {what} {target} is not one of the participants {names}. To go on, for example after a "
        "HandoffTermination, give a HandoffMessage with one of them as its target as the task."
    )

    target: str
    members: Sequence[str]
    what: str = "target"

    @property
    def names(self) -> list[str]:
        """The members, as a list."""
        return list(self.members)


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


class TeamRunUnknownError(TeamError, LookupError):
    """A run that nobody can read: the conversation never had it, its events are not kept any more, or the server lost it."""

    template = (
        "The team {team!r} has no run {run_id!r} in the conversation {conversation!r}, or not any more: events are kept for "
        "the time of `run_retention`, and a server that loses data loses runs. If it was begun a moment ago, begin it again."
    )

    team: str
    conversation: str
    run_id: str


class RunNotFoundError(TeamError, LookupError):
    """No run has an id that begins like this, or several have.

    Attributes:
        name: What was asked for.
        reason: Whether there is none, or how many there are, and what is near.
    """

    template = "The run {name!r} can't be found: {reason}"

    name: str
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
        source: Who said the last message; "": nobody said anything.
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


class ChoiceTimeoutError(TeamError, RuntimeError):
    """The strategy or the termination condition of a team did not come to an end; never an outage."""

    template = (
        "The team {team!r} could not choose who speaks next within choice_timeout={seconds:g} s: "
        "look for what its strategy or its termination condition waits for."
    )

    team: str
    seconds: float


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
