"""Errors of the programming model.

```
CallboardError
└── ActorError
    ├── CantHandleException              AutoGen's name: an agent, handler or subscription can't handle a message
    ├── UndeliverableException           AutoGen's name: the recipient does not exist
    ├── MessageDroppedException          AutoGen's name: an intervention handler dropped it
    ├── NotAccessibleError               AutoGen's name: the agent lives in another process
    ├── UnheardError                     no agent would hear a message that is published (LookupError)
    ├── DeclarationError                 a handler, agent type, step ... can't work (TypeError, ValueError, AssertionError)
    ├── SettingValueError                a setting or argument can't have this value (ValueError)
    ├── DuplicateAgentTypeError          two declarations share one agent type (ValueError)
    ├── UnknownNameError                 there is no agent type, schedule or the like of this name (LookupError)
    ├── StateError                       the persistent state of an agent can't be this (TypeError)
    ├── MisuseError                      something is used where, or while, it can't be (RuntimeError, AttributeError)
    └── InputError                       something is wrong with a question to a person, or with its answer
        ├── CannotAskError               nobody can be asked here (RuntimeError)
        ├── InputValueError              an answer is not what was asked for (ValueError)
        ├── InputExpiredError            no answer came in time (TimeoutError)
        ├── InputWithdrawnError          the question was withdrawn
        ├── InputAnsweredError           another answer came first
        ├── InputRequestUnknownError     there is no such question (LookupError)
        └── NotAllowedToAnswerError      another person was asked (PermissionError)
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
    """A message was to be published with `strict=True`, and no agent would hear it."""

    template = "nothing was published to {topic}: {reason}"

    topic: str
    reason: str


class NotAccessibleError(ActorError):
    """Raised when something is asked of an agent that is not in this process."""

    template = "{text}"

    text: str = ""


class DeclarationError(ActorError, TypeError, ValueError, AssertionError):
    """Something is declared, made or given in a way that can't work.

    It is each of the three errors that Python, pydantic and AutoGen raise in such places.
    """

    template = "{what}{because}"
    permanent = True

    what: str  # the beginning of the sentence; without a reason, all of it
    reason: str = ""

    @property
    def because(self) -> str:
        """The reason, as the end of the sentence."""
        return f": {self.reason}" if self.reason else ""


class StateError(ActorError, TypeError):
    """The persistent state of an agent can't be what it was given or declared as."""

    template = "State of {agent}: {reason}"
    permanent = True

    agent: str
    reason: str


class MisuseError(ActorError, RuntimeError, AttributeError):
    """Something is used where, or while, it can't be: outside of a handler, before its runtime runs, without a state.

    It is an AttributeError as well, so that `hasattr(agent, "id")` is false for an agent that has none yet.
    """

    template = "{text}"

    text: str


class InputError(ActorError):
    """Something is wrong with a question to a person or another outside, or with its answer.

    Raised as it is where the record of a question was changed by hand.
    """


class CannotAskError(InputError, RuntimeError):
    """A person is to be asked where nobody can be: by what can't wait without a process, and has no function that asks."""

    template = "Nobody can be asked here: {reason}."
    permanent = True

    reason: str


class InputValueError(InputError, ValueError):
    """An answer is not what was asked for."""

    template = "the answer to question {input_id!r} can't be taken: {problem}"
    permanent = True

    input_id: str  # "" where it is not known yet
    problem: str  # without the answer itself


class InputExpiredError(InputError, TimeoutError):
    """No answer to a question came in time."""

    template = "the question {input_id!r} has expired: ask with a default, or with a longer timeout"
    permanent = True

    input_id: str


class InputWithdrawnError(InputError):
    """A question was withdrawn: its answer is not waited for any more."""

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


class InputRequestUnknownError(InputError, LookupError):
    """There is no such question: there never was, or it ended some time ago."""

    template = "there is no question {input_id!r}: runtime.inputs.list() shows those that are open"

    input_id: str


class NotAllowedToAnswerError(InputError, PermissionError):
    """A question was put to another person."""

    template = "{by!r} may not answer the question {input_id!r}: it was put to {names}"

    input_id: str
    by: str
    to: Sequence[str]

    @property
    def names(self) -> str:
        """Who may answer, as a part of the sentence."""
        return ", ".join(self.to)


class DuplicateAgentTypeError(ActorError, ValueError):
    """Two declarations share one agent type."""

    template = "Agent with type {agent_type} already exists: give one of the two another type."

    agent_type: str


class UnknownNameError(ActorError, LookupError):
    """There is nothing of this name."""

    template = "There is no {kind} {name!r}. {advice}"

    kind: str  # such as "agent type"
    name: str
    known: Sequence[str]

    @property
    def advice(self) -> str:
        """The nearest name, or all of them."""
        return did_you_mean(self.name, self.known)


class SettingValueError(ActorError, ValueError):
    """A setting of an app, an agent type or a model has a value that can't work."""

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
