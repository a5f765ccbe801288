"""Errors of chat agents."""

from __future__ import annotations

from callboard.errors import ActorError


class AgentError(ActorError):
    """The root of what is wrong with a chat agent or with what it is given."""


class AgentNameError(AgentError, ValueError):
    """A name that an agent or team can't have."""

    template = "{name!r} can't be the name of {what}: it must be a valid Python identifier, such as 'writer'."

    name: str
    what: str = "an agent"


class TaskError(AgentError, ValueError):
    """Something was given as a task that is none."""

    template = "{reason} A task is a text, a chat message, or a list of chat messages."

    reason: str


class NoResponseError(AgentError, RuntimeError):
    """An agent's `on_messages_stream` ended without a Response."""

    template = (
        "The agent {name!r} did not produce a final response: its on_messages_stream has to end with one."
    )

    name: str


class ConversationError(AgentError, TypeError):
    """An agent can't be copied for another conversation."""

    template = (
        "The agent {name!r} can't be copied for another conversation, because of {reason}. "
        "Write `for_conversation` in {cls}, and return a new agent from it."
    )

    name: str
    cls: str
    reason: str


class UserInputError(AgentError, RuntimeError):
    """A person could not be asked.

    Attributes:
        name: The agent that was to ask.
        reason: Why not.
    """

    template = "Failed to get user input for {name!r}: {reason}"

    name: str
    reason: str


class ModelAnswerError(AgentError, RuntimeError):
    """A model answered with something that its agent can't use.

    Attributes:
        name: The agent.
        reason: What it answered, and what is needed.
    """

    template = "The model of {name!r} {reason}"

    name: str
    reason: str


class AgentSettingError(AgentError, ValueError):
    """An agent is given what can't work.

    Attributes:
        name: The agent.
        reason: What is wrong.
    """

    template = "The agent {name!r} can't work: {reason}"
    permanent = True

    name: str
    reason: str
