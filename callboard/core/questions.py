"""Checks of a question when it is asked, and of its answer when it is given.

The schema is data of whoever asked, and the answer of whoever answers: nothing is fetched for it, no pattern can take long,
and what can't be told within `LONGEST` passes. The handler that asked reads the answer by the class itself.
"""

from __future__ import annotations

import functools
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar, runtime_checkable

from pydantic import PydanticInvalidForJsonSchema, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, SchemaError, SchemaValidator, core_schema, to_json

from callboard.errors import DeclarationError, InputDamagedError, InputValueError

from .cancellation import UNSET, Unset

T = TypeVar("T")
DIGITS: Final = 16  # of a digest that names a question: 64 bits, for those of one handler
MOST: Final = 1_000_000  # bytes of what is shown with a question


@dataclass(frozen=True, slots=True)
class CheckedQuestion(Generic[T]):
    """A `Question` as a handler asks it: checked, its default and details written as JSON.

    Attributes:
        text: The question.
        name: Tells the questions of one handler apart; "": a digest of the text and its number.
        answer: What an answer is: it is read from JSON by this.
        choices: The answers there are; () for any.
        to: Who may answer; () for anybody.
        timeout: Seconds until it expires; None: never.
        default: JSON of what is taken then; None: none.
        details: JSON of what is shown to who answers; "" for nothing.
    """

    text: str
    name: str
    answer: TypeAdapter[T]
    choices: tuple[str, ...] = ()
    to: tuple[str, ...] = ()
    timeout: float | None = None
    default: str | None = None
    details: str = ""

    @classmethod
    def of(
        cls,
        text: str,
        *,
        name: str | None,
        choices: Sequence[str] | None,
        answer_type: type[T],
        to: str | Sequence[str] | None,
        timeout: float | None,
        default: T | Unset,
        details: Mapping[str, Any] | None,
    ) -> CheckedQuestion[T]:
        """Checks what was given to `ctx.ask`.

        Raises:
            DeclarationError: A choice, the default or the details can't be what they are.
        """
        if not text or (timeout is not None and not timeout > 0) or name == "":
            raise DeclarationError(
                "the question can't be asked",
                "a question has a text, a name that is not empty, and a timeout above 0",
            )
        names = (to,) if isinstance(to, str) else tuple(to or ())
        adapter = TypeAdapter(answer_type)
        shown = None if default is UNSET else _json(adapter, default)
        if shown is not None and choices and json.loads(shown) not in choices:
            raise DeclarationError("the question can't be asked", "its default is none of its choices")
        for one in choices or ():
            _check_fits(adapter, f"its choice {one!r}", json.dumps(one))
        if shown is not None:
            _check_fits(adapter, "its default", shown)
        told = "" if details is None else _json(_ANYTHING, dict(details))
        _json(_ANYTHING, (text, name, choices, names))
        if len(text) + len(told) > MOST:
            raise DeclarationError(
                "the question can't be asked", f"what is shown with it has more than {MOST:,} bytes"
            )
        return cls(text, name or "", adapter, tuple(choices or ()), names, timeout, shown, told)

    @property
    def digest(self) -> str:
        """What names it when nothing else does."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]

    @property
    def schema(self) -> str:
        """JSON schema of an answer; `{}` where there is none of its class."""
        try:
            return json.dumps(self.answer.json_schema())
        except PydanticInvalidForJsonSchema:
            return "{}"

    def check(self, input_id: str, answer: str) -> T:
        """The same for an answer that is just given: of the choices, of the schema, and of the class.

        Raises:
            InputValueError: It is no answer.
        """
        check_answer(input_id, self.choices, json.loads(self.schema), json.loads(answer))
        return self.read(input_id, answer)

    def read(self, input_id: str, answer: str) -> T:
        """The answer as the handler gets it.

        Raises:
            InputValueError: It is not of the class that was asked for.
        """
        try:
            return self.answer.validate_json(answer)
        except ValidationError as error:
            raise InputValueError(input_id, f"{error.errors()[0]['msg']}") from None


@runtime_checkable
class Asking(Protocol):
    """Asks for a handler, and lets it wait without a process."""

    async def ask(self, question: CheckedQuestion[T], prefix: str = "") -> T:
        """The answer; while there is none, this does not return: the handler ends. `prefix` comes before the name."""
        ...


_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)


def _json(adapter: TypeAdapter[Any], value: Any) -> str:
    try:
        # Without warnings: what is of another class is refused when it is read again.
        return adapter.dump_json(value, warnings=False).decode()
    except (PydanticSerializationError, ValueError) as error:
        raise DeclarationError(
            "the question can't be asked", f"what is asked can't be written as JSON: {error}"
        ) from None


def _check_fits(adapter: TypeAdapter[Any], what: str, given: str) -> None:
    """What could be no answer of the class would be found out days later, by whoever answers."""
    try:
        adapter.validate_json(given)
    except ValidationError as error:
        raise DeclarationError(
            "the question can't be asked", f"{what} does not fit its answer_type: {error.errors()[0]['msg']}"
        ) from None


def as_json(value: Any) -> str:
    """An answer as it is kept.

    Raises:
        InputValueError: It can't be written as JSON.
    """
    try:
        return to_json(value).decode()
    except (PydanticSerializationError, ValueError) as error:
        raise InputValueError("", f"it can't be written as JSON: {error}") from None


Schema = Mapping[str, Any]
Keyword = Callable[[Any, Any, Any, Any], Iterable[Any] | None]

LONGEST: Final = 0.5  # seconds of processor time that a check may take, however busy the machine is
PATTERNS: Final = 100  # that are kept compiled
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

_until: ContextVar[float] = ContextVar("callboard_answer_check_until")


def check_answer(input_id: str, choices: Sequence[str], schema: Schema, value: Any) -> None:
    """Refuses what is no answer.

    Args:
        input_id: Id of the question.
        choices: Its choices; () for any answer.
        schema: JSON schema of an answer.
        value: Plain data.

    Raises:
        InputValueError: It is none of the choices, or does not fit the schema.
        InputDamagedError: The schema is none: somebody changed the record by hand.
    """
    if choices and value not in choices:
        raise InputValueError(input_id, f"it has to be one of {', '.join(choices)}")
    try:
        # guard: an answer is checked when it is given
        problem = misfit(schema, value)
    except ValueError as error:
        raise InputDamagedError(input_id, str(error)) from error
    if problem:
        raise InputValueError(input_id, problem)


def misfit(schema: Schema, value: Any) -> str:
    """The first thing in which the value is not what the schema asks for, as a part of a sentence; "" when it fits.

    Raises:
        ValueError: The schema is none.
    """
    import jsonschema
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    # A subschema that names another version of JSON Schema would be checked by other functions than these.
    plain = _without_version(schema)
    try:
        jsonschema.Draft202012Validator.check_schema(plain)
        _until.set(time.thread_time() + LONGEST)
        # guard: nothing is fetched for the check of an answer
        error = next(_validator()(plain, registry=Registry()).iter_errors(value), None)
    except jsonschema.SchemaError as damaged:
        raise ValueError(f"its schema is none: {damaged.message}") from damaged
    except (RecursionError, TimeoutError, Unresolvable):
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


def _without_version(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        return {
            name: _without_version(part)
            for name, part in schema.items()
            if not (name == "$schema" and isinstance(part, str))
        }
    return [_without_version(part) for part in schema] if isinstance(schema, list) else schema


@functools.cache
def _validator() -> Any:
    """JSON Schema, but for what can take long."""
    from jsonschema import Draft202012Validator, validators

    usual: dict[str, Keyword] = dict(Draft202012Validator.VALIDATORS)
    ours: dict[str, Keyword] = {
        "pattern": _pattern,
        "patternProperties": _unchecked,
        "additionalProperties": functools.partial(_additional, usual["additionalProperties"]),
        "unevaluatedProperties": _unchecked,
        "uniqueItems": _unique,
    }
    return validators.extend(
        Draft202012Validator, {name: _in_time(check) for name, check in {**usual, **ours}.items()}
    )


def _in_time(check: Keyword) -> Keyword:
    # Schemas that refer to each other take as long as two to the power of their number.
    def checked(validator: Any, asked: Any, instance: Any, schema: Any) -> Iterable[Any] | None:
        if time.thread_time() > _until.get():
            raise TimeoutError
        return check(validator, asked, instance, schema)

    return checked


def _unchecked(validator: Any, asked: Any, instance: Any, schema: Any) -> None:
    """Names of properties are compared by patterns here, which may take for ever in Python."""


def _additional(
    usual: Keyword, validator: Any, asked: Any, instance: Any, schema: Any
) -> Iterable[Any] | None:
    return None if "patternProperties" in schema else usual(validator, asked, instance, schema)


def _pattern(validator: Any, asked: Any, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError as Misfit

    if isinstance(instance, str) and not _looks_like(asked, instance):
        yield Misfit("it has to look like its pattern")


def _looks_like(pattern: str, text: str) -> bool:
    validator = _compiled(pattern)
    if validator is None:
        return True
    try:
        validator.validate_python(text)
    except ValidationError:
        return False
    return True


@functools.lru_cache(PATTERNS)
def _compiled(pattern: str) -> SchemaValidator | None:
    """Looks for a pattern in linear time, as pydantic does; None: it can't look for this one."""
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:
        return None


def _unique(validator: Any, asked: Any, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError as Misfit

    # Comparing each with each takes hours for an answer that is not too large.
    if asked and isinstance(instance, list) and len({to_json(item) for item in instance}) < len(instance):
        yield Misfit("its items have to differ")
