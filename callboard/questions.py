"""Questions of handlers to people and other outsides: what is asked, and how it is checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar, runtime_checkable

from pydantic import PydanticInvalidForJsonSchema, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from .answer_check import check_answer
from .errors import InputValueError, QuestionError
from .suspension import UNSET, Unset

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
            QuestionError: A choice, the default or the details can't be what they are.
        """
        if not text or (timeout is not None and not timeout > 0) or name == "":
            raise QuestionError("", "a question has a text, a name that is not empty, and a timeout above 0")
        names = (to,) if isinstance(to, str) else tuple(to or ())
        adapter = TypeAdapter(answer_type)
        shown = None if default is UNSET else _json(adapter, default)
        if shown is not None and choices and json.loads(shown) not in choices:
            raise QuestionError("", "its default is none of its choices")
        for one in choices or ():
            _check_fits(adapter, f"its choice {one!r}", json.dumps(one))
        if shown is not None:
            _check_fits(adapter, "its default", shown)
        told = "" if details is None else _json(_ANYTHING, dict(details))
        _json(_ANYTHING, (text, name, choices, names))
        if len(text) + len(told) > MOST:
            raise QuestionError("", f"what is shown with it has more than {MOST:,} bytes")
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
        raise QuestionError("", f"what is asked can't be written as JSON: {error}") from None


def _check_fits(adapter: TypeAdapter[Any], what: str, given: str) -> None:
    """What could be no answer of the class would be found out days later, by whoever answers."""
    try:
        adapter.validate_json(given)
    except ValidationError as error:
        raise QuestionError("", f"{what} does not fit its answer_type: {error.errors()[0]['msg']}") from None


def as_json(value: Any) -> str:
    """An answer as it is kept.

    Raises:
        InputValueError: It can't be written as JSON.
    """
    try:
        return to_json(value).decode()
    except (PydanticSerializationError, ValueError) as error:
        raise InputValueError("", f"it can't be written as JSON: {error}") from None
