"""Errors of chat agents."""

from __future__ import annotations

from typing import ClassVar

from callboard.foundation import ActorError


class AgentError(ActorError):
    """The root of what is wrong with a chat agent or with what it is given."""


class AgentSettingError(AgentError, ValueError, TypeError):
    """An agent was made with, or given as a task, what can't work, is of another type, or does not fit the rest."""

    template = "{reason}"
    permanent = True

    reason: str


def wrong_name(name: object, what: str = "an agent") -> AgentSettingError:
    """The error of a name that an agent or a team can't have."""
    rule = "it must be a valid Python identifier, such as 'writer'."
    return AgentSettingError(f"{name!r} can't be the name of {what}: {rule}")


def not_copied(agent: object, name: str, reason: str) -> AgentSettingError:
    """The error of an agent that can't be copied for another conversation."""
    advice = f"Write `for_conversation` in {type(agent).__name__}, and return a new agent from it."
    return AgentSettingError(
        f"The agent {name!r} can't be copied for another conversation, because of {reason}. {advice}"
    )


def no_task(problem: str) -> AgentSettingError:
    """The error of something that was given as a task and is none."""
    return AgentSettingError(f"{problem} A task is a text, a chat message, or a list of chat messages.")


class NoResponseError(AgentError, RuntimeError):
    """An agent, a team or a model has answered with nothing that can be used."""

    template = "{reason}"

    reason: str


def no_response(name: str) -> NoResponseError:
    """The error of an agent whose `on_messages_stream` ended without a Response."""
    rule = "its on_messages_stream has to end with one."
    return NoResponseError(f"The agent {name!r} did not produce a final response: {rule}")


def no_verdict(guardrail: str, reason: str) -> NoResponseError:
    """The error of a guardrail that says nothing that can be understood."""
    return NoResponseError(f"The guardrail {guardrail} can't be understood: {reason}.")


class UserInputError(AgentError, RuntimeError):
    """A person could not be asked."""

    template = "Failed to get user input for {name!r}: {reason}"

    name: str
    reason: str


class RemoteTaskError(AgentError, RuntimeError):
    """A task of an agent elsewhere has no result.

    Attributes:
        agent: The agent that stands for it.
        task: Id of the task there; "": it was not begun.
        reason: What is said there.
    """

    template = "{agent}: the agent elsewhere has no result: {reason}"
    permanent = True

    agent: str
    task: str
    reason: str


class RemoteAgentUnreachableError(AgentError, ConnectionError):
    """An agent elsewhere gives no answer. On the bus the turn is tried again, and its task goes on."""

    template = "{agent}: no answer from {url}: {reason}"
    is_outage: ClassVar[bool] = True

    agent: str
    url: str
    reason: str
