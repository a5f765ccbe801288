"""Messages from the command line: their class, their fields, and errors that name the field."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from callboard.errors import did_you_mean
from callboard.foundation.texts import shell_line

from .exits import BAD_USE, CommandFailed, bad_use

if TYPE_CHECKING:
    import pydantic

    from callboard.broker import MessageRegistry

MOST_ERRORS = 3  # shown of one message


class MessageForm:
    """Makes messages of one type.

    Args:
        registry: Knows the classes.
        name: Wire name of the type.

    Raises:
        CommandFailed: There is no such type.
    """

    def __init__(self, registry: MessageRegistry, name: str) -> None:
        import pydantic

        if not registry.is_known(name):
            bad_use(f"the app has no message type {name!r}. {did_you_mean(name, _own_names(registry))}")
        self.name = name
        cls: Any = registry.entry(name).cls
        self._adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(cls)
        self._fields = _field_names(cls)
        self._has_no_fields = cls in (str, int, float, bool, list)

    def from_data(self, data: Any) -> Any:
        """A message of decoded JSON.

        Raises:
            CommandFailed: It does not fit; the text names the fields.
        """
        import pydantic

        try:
            return self._adapter.validate_json(json.dumps(data))
        except pydantic.ValidationError as error:
            raise CommandFailed(
                f"this is no {self.name}: {self._explain(error.errors(include_url=False))}", BAD_USE
            ) from error

    def from_json(self, text: str) -> Any:
        """A message of a JSON text.

        Raises:
            CommandFailed: It is no JSON, or does not fit.
        """
        try:
            data = json.loads(text)
        except ValueError as error:
            raise CommandFailed(f"this is no JSON: {error}", BAD_USE) from error
        return self.from_data(data)

    def from_fields(self, texts: Iterable[str]) -> Any:
        """A message of `field=value` texts. A value is JSON where that fits, else text.

        Raises:
            CommandFailed: It does not fit.
        """
        import pydantic

        texts = list(texts)
        if texts and self._has_no_fields:
            text = " ".join(texts)
            body = shell_line("--body", json.dumps(text if self.name == "str" else _value(text)))
            bad_use(f"{self.name} has no fields: give it as JSON, such as {body}")
        given = parse_fields(texts, self._fields)
        try:
            return self._adapter.validate_json(json.dumps(given))
        except pydantic.ValidationError as error:
            first = error
        try:
            return self._adapter.validate_json(json.dumps(_with_text(given, texts, first)))
        except pydantic.ValidationError as error:
            # What was right as text is no problem; the rest is explained as the JSON that it is.
            wrong = _fields_of(error)
            problems = [one for one in first.errors(include_url=False) if _field_of(one) in wrong]
            raise CommandFailed(f"this is no {self.name}: {self._explain(problems)}", BAD_USE) from first

    def _explain(self, errors: Iterable[Mapping[str, Any]]) -> str:
        problems = [self._problem(problem) for problem in errors]
        more = f"; and {len(problems) - MOST_ERRORS} more" if len(problems) > MOST_ERRORS else ""
        return "; ".join(problems[:MOST_ERRORS]) + more

    def _problem(self, problem: Mapping[str, Any]) -> str:
        where = ".".join(str(part) for part in problem["loc"])
        if not where:
            return str(problem["msg"])
        if problem["type"] == "missing":
            return f"the field {where!r} is missing"
        if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            return f"there is no field {where!r}. {did_you_mean(where, self._fields)}"
        return f"the field {where!r}: {problem['msg']}"


def parse_fields(texts: Iterable[str], known: Iterable[str] = ()) -> dict[str, Any]:
    """`name=Ada age=3` as data.

    Args:
        texts: As given on the command line.
        known: Fields of the class, when they are known and no others are taken.

    Raises:
        CommandFailed: A text has no `=`, a field occurs twice, or there is no such field.
    """
    known = tuple(known)
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            bad_use(f"{text!r} is not of the form field=value{_example(text, known, found)}")
        if name in found:
            bad_use(f"the field {name!r} is given twice")
        if known and name not in known:
            bad_use(f"there is no field {name!r}. {did_you_mean(name, known)}")
        found[name] = _value(value)
    return found


def _example(text: str, known: Iterable[str], given: Collection[str]) -> str:
    """The field that was probably meant: the first one that is not given yet."""
    if text.startswith("{"):
        return f"; an object as JSON is given by {shell_line(f'--body={text}')}"
    field = next((name for name in known if name not in given), None)
    return f": write {shell_line(f'{field}={text}')}" if field and text else ""


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except ValueError:
        return text


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


def _with_text(given: dict[str, Any], texts: list[str], error: pydantic.ValidationError) -> dict[str, Any]:
    """The fields that did not fit as JSON, as the text that was typed: name=2024 for a string."""
    wrong = _fields_of(error)
    typed = dict(text.split("=", 1) for text in texts)
    return {name: typed[name] if name in wrong else value for name, value in given.items()}


def _fields_of(error: pydantic.ValidationError) -> set[object]:
    return {_field_of(problem) for problem in error.errors()}


def _field_of(problem: Mapping[str, Any]) -> object:
    return problem["loc"][0] if problem["loc"] else None


def _field_names(cls: Any) -> tuple[str, ...]:
    """The names of the fields; empty if the class takes any, or has no fields at all."""
    import dataclasses

    import pydantic

    if isinstance(cls, type) and issubclass(cls, pydantic.BaseModel):
        if cls.model_config.get("extra") == "allow":
            return ()
        aliases = [field.alias for field in cls.model_fields.values() if field.alias]
        return (*cls.model_fields, *aliases)
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls))
    return ()


def _own_names(registry: MessageRegistry) -> list[str]:
    from callboard.broker.codec import SIMPLE

    simple = set(SIMPLE.values())
    own = [entry.name for entry in registry if entry.name not in simple]
    return own or sorted(simple)
