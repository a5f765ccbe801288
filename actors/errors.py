"""Errors of the programming model.

```
CallboardError
└── ActorError
    ├── CantHandleException              AutoGen's name: an agent, handler or subscription can't handle a message
    ├── UndeliverableException           AutoGen's name: the recipient does not exist
    ├── MessageDroppedException          AutoGen's name: an intervention handler dropped it
    ├── UnheardError                     nobody would hear a message that is published (LookupError)
    ├── NotAccessibleError               AutoGen's name: the agent lives in another process
    ├── HandlerDeclarationError          a handler is declared in a way that can't work (AssertionError)
    ├── HandlerResultError               a handler returned what it does not declare (ValueError)
    ├── StateError                       the persistent state of an agent can't be this (TypeError)
    ├── AgentAttributeError              an agent has no id, runtime or state (AttributeError)
    ├── MisuseError                      an object is used in a way that it is not made for (RuntimeError)
    ├── OutsideContextError              something is asked for where it does not exist (RuntimeError)
    ├── NobodyAnswersError               a person is to be asked where nobody can be (RuntimeError)
    └── DeclarationError                 an App or a registration can't work
        ├── DuplicateAgentTypeError      (ValueError)
        ├── UnknownAgentTypeError        (LookupError)
        ├── AgentDeclarationError        an agent type is declared in a way that can't work (TypeError)
        └── SettingValueError            (ValueError)
```
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from callboard.foundation.errors import (
    ActorError as ActorError,  # noqa: PLC0414 - they are found here
    CantHandleException as CantHandleException,  # noqa: PLC0414
)


class UndeliverableException(ActorError):
    """Raised when a message can't be delivered, for example because its recipient is not registered."""

    template = "{text}"

    text: str = ""


class MessageDroppedException(ActorError):
    """Raised at the sender when an intervention handler dropped the request or its response."""

    template = "{text}"

    text: str = ""


class UnheardError(ActorError, LookupError):
    """A message was to be published with `strict=True`, and nobody would hear it.

    Attributes:
        topic: Where it was to go.
        reason: Why nobody would.
    """

    template = "nothing was published to {topic}: {reason}"

    topic: str
    reason: str


class NotAccessibleError(ActorError):
    """Raised when something is asked of an agent that is not in this process."""

    template = "{text}"

    text: str = ""


class HandlerDeclarationError(ActorError, AssertionError):
    """A message handler is declared in a way that can't work.

    Attributes:
        handler: Qualified name of the function.
        reason: What is wrong with it and what to write instead.
    """

    template = "{handler}: {reason}"

    handler: str
    reason: str


class HandlerResultError(ActorError, ValueError):
    """A handler returned something it does not declare.

    Attributes:
        handler: Qualified name of the handler.
        result: Class of what it returned.
        declared: The classes in its return annotation.
    """

    template = (
        "{handler}: Return type {result} not in return types {declared}. "
        "Correct the annotation, or use strict=False."
    )
    permanent = True

    handler: str
    result: str
    declared: str


class StateError(ActorError, TypeError):
    """The persistent state of an agent can't be what it was given or declared as."""

    template = "State of {agent}: {reason}"
    permanent = True

    agent: str
    reason: str


class AgentAttributeError(ActorError, AttributeError):
    """An agent has no id or runtime yet, or no state at all."""

    template = "{text}"

    text: str


class MisuseError(ActorError, RuntimeError):
    """An object is used in a way that it is not made for."""

    template = "{text}"

    text: str


class OutsideContextError(ActorError, RuntimeError):
    """Something that only exists while the runtime does a certain thing was asked for at another time.

    Attributes:
        what: The call that was made.
        where: Where it may be made.
    """

    template = "{what} must be called within {where}."

    what: str
    where: str


class NobodyAnswersError(ActorError, RuntimeError):
    """A person is to be asked, and there is neither a handler of the bus, which could wait, nor a function that asks.

    Attributes:
        question: What was to be asked.
    """

    template = (
        "Nobody can be asked here: {question} Give the agent or the team a function that asks, `on_input=`, or run it on "
        "the bus, where the question waits until somebody answers it."
    )
    permanent = True

    question: str


class DeclarationError(ActorError):
    """Something that was declared or registered can't work."""


class DuplicateAgentTypeError(DeclarationError, ValueError):
    """Two declarations share one agent type."""

    template = "Agent with type {agent_type} already exists: give one of the two another type."

    agent_type: str


class UnknownAgentTypeError(DeclarationError, LookupError):
    """No agent of this type is declared.

    Attributes:
        agent_type: The type that was asked for.
        known: The types there are.
    """

    template = "There is no agent type {agent_type!r}. {advice}"

    agent_type: str
    known: Sequence[str]

    @property
    def advice(self) -> str:
        """The nearest type, or all of them."""
        return did_you_mean(self.agent_type, self.known)


class AgentDeclarationError(DeclarationError, TypeError):
    """An agent type is declared with a class, subscription or setting that can't work."""

    template = "{text}"

    text: str


class SettingValueError(DeclarationError, ValueError):
    """A setting of an app, an agent type or a model has a value that can't work.

    Attributes:
        setting: Its name.
        value: The value, as text.
        rule: What it has to be.
    """

    template = "{setting}={value} can't work: it must be {rule}."

    setting: str
    value: str
    rule: str


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A closing sentence for an unknown name: the nearest known one, else all of them."""
    names = sorted(known)
    if not names:
        return "None are declared yet."
    close = difflib.get_close_matches(name, names, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"There are: {', '.join(names)}."
