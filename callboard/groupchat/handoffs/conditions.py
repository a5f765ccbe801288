"""When somebody is handed over to: what a model is told, and what context variables have to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from callboard.groupchat.agent import Message
from callboard.groupchat.context_variables import ContextVariables

from .context_text import ContextStr
from .expression import ContextExpression


class Knowing(Protocol):
    """Who a condition is about: an agent, with its name and the context variables of the chat."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def context_variables(self) -> ContextVariables:
        """What the agents of the chat share."""
        ...


@dataclass(frozen=True)
class Known:
    """An agent's name and the context variables of its chat, where the agent itself is in another process."""

    name: str
    context_variables: ContextVariables


@runtime_checkable
class LLMCondition(Protocol):
    """Tells a model when it is to hand over."""

    def get_prompt(self, agent: Knowing, messages: Sequence[Message]) -> str:
        """What the model is told."""
        ...


@runtime_checkable
class ContextCondition(Protocol):
    """Says by the context variables whether somebody is handed over to."""

    def evaluate(self, context_variables: ContextVariables) -> bool:
        """Whether it is met.

        Raises:
            MissingVariableError: A variable is not there (a KeyError). In a chat the condition is not met then.
            ExpressionError: Values can't be compared (a ValueError). The same.
        """
        ...


@runtime_checkable
class AvailableCondition(Protocol):
    """Says whether a handoff is there at all. It is asked at every turn."""

    def is_available(self, agent: Knowing, messages: Sequence[Message]) -> bool:
        """Whether it is."""
        ...


@dataclass(frozen=True)
class StringLLMCondition:
    """A fixed text.

    Args:
        prompt: When to hand over, such as "Transfer to the tech agent for technical questions."
    """

    prompt: str

    def get_prompt(self, agent: Knowing, messages: Sequence[Message]) -> str:
        """The text."""
        return self.prompt


@dataclass(frozen=True)
class ContextStrLLMCondition:
    """A text with context variables in it, filled anew at every turn.

    Args:
        context_str: The text.
    """

    context_str: ContextStr

    def get_prompt(self, agent: Knowing, messages: Sequence[Message]) -> str:
        """The text with the values as they are now."""
        return self.context_str.format(agent.context_variables)


@dataclass(frozen=True)
class StringContextCondition:
    """Is met when a variable is true.

    Args:
        variable_name: Its name; without the variable it is not met.
    """

    variable_name: str

    def evaluate(self, context_variables: Mapping[str, Any]) -> bool:
        """Whether it is."""
        return bool(context_variables.get(self.variable_name, False))


@dataclass(frozen=True)
class ExpressionContextCondition:
    """Is met when an expression is true.

    Args:
        expression: The expression.
    """

    expression: ContextExpression

    def evaluate(self, context_variables: Mapping[str, Any]) -> bool:
        """Whether it is; see `ContextExpression.evaluate`."""
        return self.expression.evaluate(context_variables)


@dataclass(frozen=True)
class StringAvailableCondition:
    """A handoff is there while a variable is true.

    Args:
        context_variable: Its name.
    """

    context_variable: str

    def is_available(self, agent: Knowing, messages: Sequence[Message]) -> bool:
        """Whether it is."""
        return bool(agent.context_variables.get(self.context_variable, False))


@dataclass(frozen=True)
class ExpressionAvailableCondition:
    """A handoff is there while an expression is true.

    Args:
        expression: The expression.
    """

    expression: ContextExpression

    def is_available(self, agent: Knowing, messages: Sequence[Message]) -> bool:
        """Whether it is; see `ContextExpression.evaluate`."""
        return self.expression.evaluate(agent.context_variables)
