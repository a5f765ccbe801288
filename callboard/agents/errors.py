"""Errors of chat agents."""

from __future__ import annotations

from callboard.foundation import ActorError


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


class NoResultError(AgentError, RuntimeError):
    """A team's `run_stream` ended without a TaskResult."""

    template = "The team {name!r} ended without a result: its run_stream has to end with a TaskResult."

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


class AssistantSettingError(AgentError, ValueError):
    """An assistant is given what can't work, or what does not fit together."""

    template = "{reason}"
    permanent = True

    reason: str


class NotAMemoryError(AgentError, TypeError):
    """Something else was given where a list of memories is needed."""

    template = "Expected a list of Memory, or None, got {given}"
    permanent = True

    given: str


class NoTextError(AgentError, RuntimeError):
    """A model that was to put the results of tools into words asked for tools again, or its stream had no end.

    Attributes:
        name: The agent.
    """

    template = "Reflect on tool use produced no valid text response: the model of {name!r} answered with something else."

    name: str


class TurnOverError(AgentError, RuntimeError):
    """An agent began another turn before this one ended.

    Attributes:
        name: The agent.
    """

    template = (
        "{name!r} began another turn before this one ended. An agent takes one turn at a time: give each conversation "
        "an agent of its own, see `for_conversation`."
    )

    name: str


class GuardrailError(AgentError, ValueError):
    """A guardrail says nothing that can be understood.

    Attributes:
        guardrail: Its name.
    """

    template = "The guardrail {guardrail} can't be understood: {reason}."

    guardrail: str
    reason: str


class NobodyToAskError(AgentError, RuntimeError):
    """A guardrail wants a person to decide, and nobody can be asked.

    Attributes:
        name: The agent.
        question: For the person.
    """

    template = (
        "A guardrail of {name!r} asks: {question} Nobody can be asked: give the assistant a function that asks, "
        "`on_input=`, write `on_guardrail_asks` in a class of your own, or run it on the bus."
    )

    name: str
    question: str
