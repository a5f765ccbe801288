"""Questions for people: how agents ask them, how they are checked, and how those see them who answer.

The schema of an answer is data of the asker, and the answer is data of the answerer: nothing is fetched for a check. The
handler that asked reads the answer by the class itself.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Final, Self, TypeAlias

from pydantic import PydanticInvalidForJsonSchema, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from callboard.broker.errors import BrokerError
from callboard.broker.ids import AgentId
from callboard.broker.redis.client.questions import InputStatus
from callboard.errors import CannotAskError, DeclarationError, InputError, InputValueError
from callboard.foundation.tasks import in_thread
from callboard.memory.cancelling import cancellable

from .cancellation import UNSET, CancellationToken
from .context import ContextScope, MessageContext

NO_DEFAULT: Final = UNSET
"""In place of a default: a question that expires without an answer is an error."""

DIGITS: Final = 16  # of a digest that names a question: 64 bits, for those of one handler
MOST: Final = 1_000_000  # bytes of what is shown with a question
BLANK: Final = "a question has a text, a name that is not empty, and a timeout above 0"
_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question for a person; its fields are the arguments of `MessageContext.ask`.

    Attributes:
        text: What is asked.
        name: Tells the questions of one message apart; the same in every attempt. "": a digest of the text and its number.
        choices: The answers that may be given; None: any that fit `answer_type`.
        answer_type: What an answer is read as.
        to: Who may answer; empty: anybody.
        timeout: Seconds until it expires; None: never.
        default: The answer of a question that has expired; NO_DEFAULT: then it is an error.
        details: What the person should see besides, as plain data.
    """

    text: str
    name: str = ""
    choices: tuple[str, ...] | None = None
    answer_type: Any = str
    to: tuple[str, ...] = ()
    timeout: float | None = None
    default: Any = NO_DEFAULT
    details: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        text: str,
        *,
        name: str | None,
        choices: Sequence[str] | None,
        answer_type: Any,
        to: str | Sequence[str] | None,
        timeout: float | None,
        default: Any,
        details: Mapping[str, Any] | None,
    ) -> Self:
        """A question of what was given to `MessageContext.ask`.

        Raises:
            DeclarationError: It can't be asked like that (a ValueError).
        """
        if name == "":
            raise DeclarationError("the question can't be asked", BLANK)
        return cls(
            text=text,
            name=name or "",
            choices=tuple(choices) if choices else None,
            answer_type=answer_type,
            to=(to,) if isinstance(to, str) else tuple(to or ()),
            timeout=timeout,
            default=default,
            details=details or {},
        ).checked()

    def checked(self) -> Self:
        """This question, as it is asked.

        Raises:
            DeclarationError: A choice, the default or the details can't be what they are (a ValueError).
        """
        if not self.text or (self.timeout is not None and not self.timeout > 0):
            raise DeclarationError("the question can't be asked", BLANK)
        default = self.default_json
        if default is not None and self.choices and json.loads(default) not in self.choices:
            raise DeclarationError("the question can't be asked", "its default is none of its choices")
        for one in self.choices or ():
            _check_fits(self.adapter, f"its choice {one!r}", json.dumps(one))
        if default is not None:
            _check_fits(self.adapter, "its default", default)
        _json(_ANYTHING, (self.text, self.name, self.choices, self.to))
        if len(self.text) + len(self.details_json) > MOST:
            raise DeclarationError(
                "the question can't be asked", f"what is shown with it has more than {MOST:,} bytes"
            )
        return self

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """Reads an answer from JSON."""
        return TypeAdapter(self.answer_type)

    @cached_property
    def default_json(self) -> str | None:
        """JSON of the default; None: there is none."""
        return None if self.default is UNSET else _json(self.adapter, self.default)

    @cached_property
    def details_json(self) -> str:
        """JSON of the details; "" for none."""
        return _json(_ANYTHING, dict(self.details)) if self.details else ""

    @property
    def digest(self) -> str:
        """Names the question when nothing else does."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]

    @property
    def schema(self) -> str:
        """JSON schema of an answer; `{}` where there is none of its class."""
        try:
            return json.dumps(self.adapter.json_schema())
        except PydanticInvalidForJsonSchema:
            return "{}"

    def check(self, input_id: str, answer: str) -> Any:
        """The same for an answer that is just given: of the choices, of the schema, and of the class.

        Raises:
            InputValueError: It is no answer.
        """
        check_answer(input_id, self.choices or (), json.loads(self.schema), json.loads(answer))
        return self.read(input_id, answer)

    def read(self, input_id: str, answer: str) -> Any:
        """The answer as the handler gets it.

        Raises:
            InputValueError: It is not of the class that was asked for.
        """
        try:
            return self.adapter.validate_json(answer)
        except ValidationError as error:
            raise InputValueError(input_id, f"{error.errors()[0]['msg']}") from None


def _json(adapter: TypeAdapter[Any], value: Any) -> str:
    try:
        # Without warnings: what is of another class is refused when it is read again.
        return adapter.dump_json(value, warnings=False).decode()
    except (PydanticSerializationError, ValueError) as error:
        raise DeclarationError(
            "the question can't be asked", f"what is asked can't be written as JSON: {error}"
        ) from None


def _check_fits(adapter: TypeAdapter[Any], what: str, given: str) -> None:
    """Refuse what is no answer of the class: else the person who answers would find out, days later."""
    try:
        adapter.validate_json(given)
    except ValidationError as error:
        raise DeclarationError(
            "the question can't be asked", f"{what} does not fit its answer_type: {error.errors()[0]['msg']}"
        ) from None


def _arguments(question: Question) -> dict[str, Any]:
    """The arguments of `MessageContext.ask` beside the text: they are called like the fields."""
    given = {one.name: getattr(question, one.name) for one in fields(question) if one.name != "text"}
    return given | {"name": question.name or None}


# Asking

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
        return question.adapter.validate_python(said)
    if context is None:
        raise CannotAskError(
            f"{question.text} Give the agent a function that asks, `on_input=`, or run it on the bus, where the question "
            "waits until somebody answers it"
        )
    return await context.ask(question.text, **_arguments(question))


async def _asked_by(on_input: OnInput, question: Question, token: CancellationToken | None) -> Any:
    """The answer of the function, as plain data that can be recorded."""
    answer = await cancellable(_called(on_input, question), token)
    read = question.adapter.validate_python(answer)
    return question.adapter.dump_python(read, mode="json")


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
            InputError: The record was changed by hand.
        """
        try:
            return cls._read(input_id, fields)
        except (BrokerError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise _damaged(input_id, f"{type(error).__name__}: {error}") from error

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
        """An answer from what a person typed: the text itself where text is asked for, else JSON.

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
        """The kind of answer that is asked for, in short."""
        return str(self.schema.get("title") or self.schema.get("type") or "anything")

    def check(self, value: Any) -> None:
        """Refuses what is no answer.

        Args:
            value: Plain data.

        Raises:
            InputValueError: It is none of the choices, or does not fit the schema.
            InputError: The schema is none: the record was changed by hand.
        """
        check_answer(self.id, self.choices, self.schema, value)


def _read(text: str | None, otherwise: Any) -> Any:
    return json.loads(text) if text else otherwise


def _seconds(ms: str | None) -> float | None:
    return int(ms) / 1000 if ms else None


def as_json(value: Any) -> str:
    """An answer as it is kept.

    Raises:
        InputValueError: It can't be written as JSON.
    """
    try:
        return to_json(value).decode()
    except (PydanticSerializationError, ValueError) as error:
        raise InputValueError("", f"it can't be written as JSON: {error}") from None


# Checking an answer

Schema: TypeAlias = Mapping[str, Any]

WORDS: Final[Mapping[str, str]] = {
    "minimum": "at least",
    "maximum": "at most",
    "exclusiveMinimum": "more than",
    "exclusiveMaximum": "less than",
    "minLength": "as long as",
    "maxLength": "no longer than",
    "minItems": "as long as",
    "maxItems": "no longer than",
}


def check_answer(input_id: str, choices: Sequence[str], schema: Schema, value: Any) -> None:
    """Refuses what is no answer.

    Args:
        input_id: Id of the question.
        choices: Its choices; () for any answer.
        schema: JSON schema of an answer.
        value: Plain data.

    Raises:
        InputValueError: It is none of the choices, or does not fit the schema.
        InputError: The schema is none: the record was changed by hand.
    """
    if choices and value not in choices:
        raise InputValueError(input_id, f"it has to be one of {', '.join(choices)}")
    try:
        # guard: an answer is checked when it is given
        problem = misfit(schema, value)
    except ValueError as error:
        raise _damaged(input_id, str(error)) from error
    if problem:
        raise InputValueError(input_id, problem)


def _damaged(input_id: str, problem: str) -> InputError:
    return InputError.saying(
        f"the record of the question {input_id!r} was changed by hand and can't be read: {problem}; withdraw it"
    )


def misfit(schema: Schema, value: Any) -> str:
    """The first thing in which the value is not what the schema asks for, as a part of a sentence; "" when it fits.

    What can't be told passes: a reference to another document, an endless one, a pattern that Python does not know.

    Raises:
        ValueError: The schema is none.
    """
    import jsonschema
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    checks = jsonschema.Draft202012Validator
    try:
        # Without formats: patterns of pydantic are those of Rust, and Python would take some of them for none.
        checks.check_schema(schema, format_checker=jsonschema.FormatChecker(formats=()))
        # guard: nothing is fetched for the check of an answer
        error = next(checks(schema, registry=Registry()).iter_errors(value), None)
    except jsonschema.SchemaError as damaged:
        raise ValueError(f"its schema is none: {damaged.message}") from damaged
    except (RecursionError, re.error, Unresolvable):
        return ""
    while error is not None and error.context:
        error = error.context[0]
    return "" if error is None else _in_words(error)


def _in_words(error: Any) -> str:
    """Without the answer itself, which may be long, and a secret."""
    at = f"item {error.path[-1] + 1}" if _is_item(error) else repr(error.path[-1]) if error.path else "it"
    rule, asked = error.validator, error.validator_value
    if rule == "type" and isinstance(asked, str):
        return f"{at} has to be {'an' if asked[0] in 'aio' else 'a'} {asked}"
    if rule in ("enum", "const"):
        return f"{at} has to be one of {', '.join(map(str, asked if rule == 'enum' else [asked]))}"
    if rule in WORDS:
        return f"{at} has to be {WORDS[rule]} {asked}"
    if rule == "pattern":
        return f"{at} has to look like {asked}"
    if rule == "required":
        return f"{at} has no {next(name for name in asked if name not in error.instance)!r}"
    if rule == "additionalProperties":
        known = error.schema.get("properties", {})
        return f"{at} may have no {next(name for name in error.instance if name not in known)!r}"
    return f"{at} does not fit `{rule}` of what is asked for"


def _is_item(error: Any) -> bool:
    return bool(error.path) and isinstance(error.path[-1], int)
