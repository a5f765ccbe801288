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
    ├── StepError                        ctx.once was given what it can't run (TypeError)
    ├── OutsideContextError              something is asked for where it does not exist (RuntimeError)
    ├── InputError                       something is wrong with a question to a person, or with its answer
    │   ├── CannotAskError               what is running can't wait without a process (RuntimeError)
    │   ├── NobodyAnswersError           a person is to be asked where nobody can be (RuntimeError)
    │   ├── InputValueError              an answer is not what was asked for (ValueError)
    │   │   └── QuestionError            a question can't be asked like that
    │   ├── InputExpiredError            nobody answered in time (TimeoutError)
    │   ├── InputWithdrawnError          the question was withdrawn
    │   ├── InputAnsweredError           somebody else was first
    │   ├── InputDamagedError            the record of a question was changed by hand
    │   ├── InputRequestUnknownError     there is no such question (LookupError)
    │   └── NotAllowedToAnswerError      somebody else was asked (PermissionError)
    └── DeclarationError                 an App or a registration can't work
        ├── DuplicateAgentTypeError      (ValueError)
        ├── UnknownAgentTypeError        (LookupError)
        ├── AgentDeclarationError        an agent type is declared in a way that can't work (TypeError)
        └── SettingValueError            (ValueError)
```
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from callboard.foundation import (
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
        advice: What to do.
    """

    template = "{handler}: Return type {result} not in return types {declared}. {advice}"
    permanent = True

    handler: str
    result: str
    declared: str
    advice: str = "Correct the annotation, or use strict=False."


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


class StepError(ActorError, TypeError):
    """Something was given to `ctx.once` that it can't run.

    Attributes:
        name: What was given as the name of the step, as `repr` shows it.
        reason: What to write instead.
    """

    template = "the step {name} can't run: {reason}"
    permanent = True

    name: str
    reason: str


class OutsideContextError(ActorError, RuntimeError):
    """Something that only exists while the runtime does a certain thing was asked for at another time.

    Attributes:
        what: The call that was made.
        where: Where it may be made.
    """

    template = "{what} must be called within {where}."

    what: str
    where: str


class InputError(ActorError):
    """Something is wrong with a question to a person or another outside, or with its answer."""


class CannotAskError(InputError, RuntimeError):
    """`ctx.ask` was called by something that can't wait without a process.

    Attributes:
        reason: What it is, and what to do instead.
    """

    template = "ctx.ask() can't be used here: {reason}."
    permanent = True

    reason: str


class NobodyAnswersError(InputError, RuntimeError):
    """A person is to be asked, and there is neither a handler of the bus, which could wait, nor a function that asks.

    Attributes:
        question: What was to be asked.
    """

    template = (
        "Nobody can be asked here: {question} Give the agent a function that asks, `on_input=`, or run it on the bus, "
        "where the question waits until somebody answers it."
    )
    permanent = True

    question: str


class InputValueError(InputError, ValueError):
    """An answer is not what was asked for.

    Attributes:
        input_id: Id of the question; "" where that is not known yet.
        problem: What is wrong; the answer itself is not shown.
    """

    template = "the answer to question {input_id!r} can't be taken: {problem}"
    permanent = True

    input_id: str
    problem: str


class QuestionError(InputValueError):
    """A question can't be asked like that; `problem` says why."""

    template = "the question can't be asked: {problem}"


class InputExpiredError(InputError, TimeoutError):
    """Nobody answered a question in time.

    Attributes:
        input_id: Id of the question.
    """

    template = "the question {input_id!r} has expired: ask with a default, or with a longer timeout"
    permanent = True

    input_id: str


class InputWithdrawnError(InputError):
    """A question was withdrawn: nobody waits for its answer any more.

    Attributes:
        input_id: Id of the question.
    """

    template = "the question {input_id!r} was withdrawn"
    permanent = True

    input_id: str


class InputAnsweredError(InputError):
    """A question was answered before: the first answer counts.

    Attributes:
        input_id: Id of the question.
        by: Who answered it; "" when they did not say.
        at: When: Unix time in seconds, on the server's clock.
    """

    template = "the question {input_id!r} was answered before{whom}: the first answer counts"

    input_id: str
    by: str = ""
    at: float = 0.0

    @property
    def whom(self) -> str:
        """By whom, as a part of the sentence."""
        return f" by {self.by}" if self.by else ""


class InputDamagedError(InputError):
    """The record of a question can't be read: somebody changed it by hand.

    Attributes:
        input_id: Id of the question.
        problem: What is wrong with it.
    """

    template = "the record of the question {input_id!r} was changed by hand and can't be read: {problem}; withdraw it"
    permanent = True

    input_id: str
    problem: str


class InputRequestUnknownError(InputError, LookupError):
    """There is no such question: there never was, or it ended some time ago.

    Attributes:
        input_id: The id that was given.
    """

    template = "there is no question {input_id!r}: runtime.inputs.list() shows those that are open"

    input_id: str


class NotAllowedToAnswerError(InputError, PermissionError):
    """A question was put to somebody else.

    Attributes:
        input_id: Id of the question.
        by: Who wanted to answer it.
        to: Who may.
    """

    template = "{by!r} may not answer the question {input_id!r}: it was put to {names}"

    input_id: str
    by: str
    to: Sequence[str]

    @property
    def names(self) -> str:
        """Who may answer, as a part of the sentence."""
        return ", ".join(self.to)


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
    import difflib  # when something is wrong

    names = sorted(known)
    if not names:
        return "None are declared yet."
    close = difflib.get_close_matches(name, names, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"There are: {', '.join(names)}."
