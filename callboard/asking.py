"""Questions for people: on the bus they wait for their answer without a process, elsewhere a function asks them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeAlias

from pydantic import TypeAdapter

from .cancellation import CancellationToken
from .context import ContextScope, MessageContext
from .errors import NobodyAnswersError
from .foundation.threads import in_thread
from .memory.cancelling import cancellable
from .questions import CheckedQuestion
from .suspension import UNSET

NO_DEFAULT: Final = UNSET
"""In place of a default: a question that expires without an answer is an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question for a person; its fields are the arguments of `MessageContext.ask`.

    Attributes:
        text: What is asked.
        name: Tells the questions of one message apart; the same in every attempt.
        choices: The answers that may be given; None: any that fit `answer_type`.
        answer_type: What an answer is read as.
        to: Who may answer; empty: anybody.
        timeout: Seconds until it expires; None: never.
        default: The answer of a question that has expired; NO_DEFAULT: then it is an error.
        details: What the person should see besides, as plain data.
    """

    text: str
    name: str
    choices: tuple[str, ...] | None = None
    answer_type: Any = str
    to: tuple[str, ...] = ()
    timeout: float | None = None
    default: Any = NO_DEFAULT
    details: Mapping[str, Any] = field(default_factory=dict)


def checked(question: Question) -> CheckedQuestion[Any]:
    """A question as it is asked.

    Raises:
        QuestionError: It can't be asked like that (a ValueError).
    """
    return CheckedQuestion.of(question.text, **_arguments(question))


def _arguments(question: Question) -> dict[str, Any]:
    """What goes to `MessageContext.ask` beside the text: its arguments are called like the fields."""
    return {one.name: getattr(question, one.name) for one in fields(question) if one.name != "text"}


OnInput: TypeAlias = Callable[[Question], Any]
"""Asks a person: a function of the question, async or not (then it runs in a thread, and may block). It returns the answer:
plain data, or an object of the question's `answer_type`."""

_on_input: ContextVar[OnInput | None] = ContextVar("callboard_on_input", default=None)


def asking_by(on_input: OnInput | None) -> ContextScope[OnInput | None]:
    """For the length of a `with` block questions go to this function; None: as outside of it."""
    return ContextScope(_on_input, on_input or _on_input.get())


def can_ask(context: MessageContext | None) -> bool:
    """Whether there is somebody who could be asked."""
    return context is not None or _on_input.get() is not None


async def ask_person(
    question: Question, context: MessageContext | None, token: CancellationToken | None = None
) -> Any:
    """The answer of a person.

    The function of `asking_by` asks, if there is one; inside a handler its answer is recorded. Else the handler asks by
    `MessageContext.ask`, and ends until there is an answer.

    Args:
        question: The question.
        context: Of the message that is handled; None: there is none.
        token: Ends the wait for the function; None: that of the context.

    Raises:
        NobodyAnswersError: There is neither a function nor a handler (a RuntimeError).
        pydantic.ValidationError: The function returned what is no answer (a ValueError).
        Exception: What the function, or `MessageContext.ask`, raises.
    """
    on_input = _on_input.get()
    if on_input is not None:
        token = token or (None if context is None else context.cancellation_token)
        ask = functools.partial(_asked_by, on_input, question, token)
        # guard: a function asks a person once, whatever becomes of this process
        said = await (ask() if context is None else context.once(f"ask:{question.name}", ask))
        return TypeAdapter(question.answer_type).validate_python(said)
    if context is None:
        raise NobodyAnswersError(question.text)
    return await context.ask(question.text, **_arguments(question))


async def _asked_by(on_input: OnInput, question: Question, token: CancellationToken | None) -> Any:
    """What the function says, as plain data that can be recorded."""
    answer = await cancellable(_called(on_input, question), token)
    read = TypeAdapter(question.answer_type).validate_python(answer)
    return TypeAdapter(question.answer_type).dump_python(read, mode="json")


async def _called(on_input: OnInput, question: Question) -> Any:
    call = functools.partial(on_input, question)
    is_async = inspect.iscoroutinefunction(on_input) or inspect.iscoroutinefunction(
        getattr(on_input, "__call__", None)  # noqa: B004 - not whether it can be called, but how
    )
    result = call() if is_async else await in_thread("callboard-on-input", call)
    return await result if inspect.isawaitable(result) else result
