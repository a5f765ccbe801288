"""Errors of group chats."""

from __future__ import annotations

from callboard.errors import ActorError


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
