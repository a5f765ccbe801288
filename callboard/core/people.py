"""Questions for people, as agents ask them and as those see them who answer."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeAlias

from pydantic import TypeAdapter

from callboard.broker.errors import BrokerError
from callboard.broker.ids import AgentId
from callboard.broker.redis.client.questions import InputStatus
from callboard.errors import CannotAskError, InputDamagedError, InputValueError
from callboard.foundation.tasks import in_thread
from callboard.memory.cancelling import cancellable

from .cancellation import UNSET, CancellationToken
from .context import ContextScope, MessageContext
from .questions import CheckedQuestion, check_answer

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
        DeclarationError: It can't be asked like that (a ValueError).
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
        CannotAskError: There is neither a function nor a handler (a RuntimeError).
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
        raise CannotAskError(
            f"{question.text} Give the agent a function that asks, `on_input=`, or run it on the bus, where the question "
            "waits until somebody answers it"
        )
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


@dataclass(frozen=True, slots=True)
class InputRequest:
    """A question of a handler, and what came of it.

    Attributes:
        id: Of the question; the same in every attempt at the message.
        question: What is asked.
        agent: The agent whose handler asks.
        message_id: The message that it handles.
        run_path: Path of the run that the message belongs to, from the outermost run inwards, with separators; None: none.
        name: Tells the questions of one handler apart.
        choices: The answers there are; () for any.
        schema: JSON schema of an answer.
        to: Who may answer; () for anybody.
        details: What is shown with it.
        asked: When it was asked first: Unix time in seconds, on the server's clock.
        expires: When it expires; None: never.
        default: What is taken then, as plain data; None also when there is none, see `has_default`.
        has_default: Whether there is one; without, the handler gets InputExpiredError.
        status: What came of it.
        answer: The answer, as plain data; None without one.
        by: Who answered or withdrew it; "" when they did not say.
        ended: When it was answered, expired or was withdrawn; None while it is open.
    """

    id: str
    question: str
    agent: AgentId
    message_id: str
    run_path: str | None
    name: str
    choices: tuple[str, ...]
    schema: Mapping[str, Any]
    to: tuple[str, ...]
    details: Mapping[str, Any]
    asked: float
    expires: float | None
    default: Any
    has_default: bool
    status: InputStatus
    answer: Any
    by: str
    ended: float | None

    @property
    def run_id(self) -> str | None:
        """The old name of `run_path`, which is no id of a run."""
        return self.run_path

    @classmethod
    def of(cls, input_id: str, fields: Mapping[str, str]) -> InputRequest:
        """Reads what the server keeps.

        Args:
            input_id: Id of the question.
            fields: Of its record.

        Raises:
            InputDamagedError: Somebody changed the record by hand.
        """
        try:
            return cls._read(input_id, fields)
        except (BrokerError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise InputDamagedError(input_id, f"{type(error).__name__}: {error}") from error

    @classmethod
    def _read(cls, input_id: str, fields: Mapping[str, str]) -> InputRequest:
        default, answer = fields.get("default", ""), fields.get("answer", "")
        return cls(
            id=input_id,
            question=fields.get("question", ""),
            agent=AgentId(fields["type"], fields["key"]),
            message_id=fields["message"],
            run_path=fields.get("run") or None,
            name=fields["name"],
            choices=tuple(_read(fields.get("choices"), [])),
            schema=_read(fields.get("schema"), {}),
            to=tuple(_read(fields.get("to"), [])),
            details=_read(fields.get("details"), {}),
            asked=int(fields["asked"]) / 1000,
            expires=_seconds(fields.get("expires")),
            default=_read(default, None),
            has_default=bool(default),
            status=InputStatus(fields["status"]),
            answer=_read(answer, None),
            by=fields.get("by", ""),
            ended=_seconds(fields.get("at")),
        )

    def read(self, text: str) -> Any:
        """What somebody typed, as an answer: the text itself where text is asked for, else JSON.

        Raises:
            InputValueError: It is not JSON where that is needed.
        """
        if self.choices or self.schema.get("type") == "string":
            return text
        try:
            return json.loads(text)
        except ValueError:
            raise InputValueError(self.id, f"{self.expected} is asked for, as JSON") from None

    @property
    def expected(self) -> str:
        """What an answer is, in short."""
        return str(self.schema.get("title") or self.schema.get("type") or "anything")

    def check(self, value: Any) -> None:
        """Refuses what is no answer.

        Args:
            value: Plain data.

        Raises:
            InputValueError: It is none of the choices, or does not fit the schema.
            InputDamagedError: The schema is none: somebody changed the record by hand.
        """
        check_answer(self.id, self.choices, self.schema, value)


def _read(text: str | None, otherwise: Any) -> Any:
    return json.loads(text) if text else otherwise


def _seconds(ms: str | None) -> float | None:
    return int(ms) / 1000 if ms else None
