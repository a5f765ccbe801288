"""Errors of group chats."""

from __future__ import annotations

from callboard.foundation import ActorError


class GroupChatError(ActorError):
    """The root of what is wrong with a group chat, or with what it is asked for."""


class GroupChatDeclarationError(GroupChatError, ValueError):
    """A group chat, or an agent of it, can't be made like this."""

    template = "{reason}"

    reason: str


class TransitionError(GroupChatError, ValueError, KeyError):
    """A graph of transitions can't be this; KeyError as well, which AG2 raises for an outside key of "disallowed"."""

    template = "Speaker transitions: {reason}"

    reason: str

    __str__ = GroupChatError.__str__  # KeyError's would show it in quotes


class SpeakerSelectionError(GroupChatError, ValueError):
    """The next speaker can't be chosen, because of how the group chat is set up."""

    template = "{reason}"

    reason: str


class NoEligibleSpeakerError(GroupChatError):
    """Nobody may speak next. A group chat ends then."""

    template = "{reason}"

    reason: str = "Nobody may speak next."


class UndefinedNextAgentError(GroupChatError):
    """There is nobody of the group among those who may be next."""

    template = "{reason}"

    reason: str = "None of these agents is in the group chat."


class AgentNameConflictError(GroupChatError):
    """Several agents have the name that was asked for."""

    template = "Several agents are named {name!r}."

    name: str


class ModelClientClassError(GroupChatError, RuntimeError):
    """Model client classes can't be told apart, because several have one name."""

    template = "Several model client classes are named {name!r}."

    name: str


class ResumeError(GroupChatError, ValueError):
    """A group chat can't be resumed from this."""

    template = "The group chat can't be resumed: {reason}"

    reason: str


class ClearHistoryError(GroupChatError, ValueError):
    """The words "clear history" name nobody of the group, so nothing was cleared."""

    template = "Nothing was cleared: nobody of the group is named {name!r}. The names are {names}."

    name: str
    names: str


class MessageError(GroupChatError, ValueError):
    """This can't be sent as a message."""

    template = "A message of {agent!r} can't be sent: {reason}"

    agent: str
    reason: str


class HandoffError(GroupChatDeclarationError, TypeError):
    """A handoff, a target or a pattern can't be this; a TypeError as well, which AG2 raises for another class."""


class ExpressionError(GroupChatError, ValueError):
    """An expression has something that is not allowed in it, or its values can't be compared."""

    template = "The expression {expression!r} can't be: {reason}."

    expression: str
    reason: str


class ExpressionSyntaxError(GroupChatError, SyntaxError):
    """An expression can't be read."""

    template = "The expression {expression!r} can't be read: {reason}."

    expression: str
    reason: str

    __str__ = GroupChatError.__str__


class MissingVariableError(GroupChatError, KeyError):
    """A context variable that an expression names is not there."""

    template = "There is no context variable {name!r}, which the expression {expression!r} needs."

    name: str
    expression: str

    __str__ = GroupChatError.__str__  # KeyError's would show it in quotes


class SharedVariableError(GroupChatError, ValueError):
    """A context variable can't travel with the messages to agents in other processes."""

    template = (
        "The context variable {name!r} can't be shared: {reason}. Its value has to fit into JSON: texts, numbers, lists, "
        "dictionaries, true, false, null."
    )
    permanent = True

    name: str
    reason: str
