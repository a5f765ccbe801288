"""Sentences about settings that can't work: which one, why, and what would."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, TypeVar, cast

from pydantic import ValidationError

from .errors import SettingsError

T = TypeVar("T")
RULES: Final = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number",
    "string_type": "text",
    "string_too_short": "text",
    "bool_type": "True or False",
    "bool_parsing": "1 or 0",
}
COMPARISONS: Final = {"greater_than": "more than {gt:g}", "greater_than_equal": "at least {ge:g}"}


def explained(settings: type[T]) -> type[T]:
    """Makes the constructor of settings raise a SettingsError with one sentence instead of a ValidationError."""
    validate = cast("Any", settings).__init__

    @functools.wraps(validate)
    def construct(self: Any, /, **values: Any) -> None:
        try:
            validate(self, **values)
        except ValidationError as error:
            raise SettingsError(sentence_about(error, settings)) from None

    cast("Any", settings).__init__ = construct
    return settings


def sentence_about(
    error: ValidationError, settings: type[Any], variables: Mapping[str, str] | None = None
) -> str:
    """The first problem of a validation as a sentence.

    Args:
        error: what pydantic found.
        settings: the class that was to be made.
        variables: the environment variables that values came from, by the names of the settings.
    """
    problem = error.errors(include_url=False)[0]
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "value_error" and not problem["loc"]:
        return str(context["error"])
    name = str(problem["loc"][0])
    if kind == "unexpected_keyword_argument":
        return f"there is no setting {name!r}{did_you_mean(name, [spec.name for spec in fields(settings)])}"
    shown = (variables or {}).get(name, name)
    if kind == "value_error":
        return f"{shown}: {context['error']}"
    rule = _rule(kind, context, problem["input"])
    return f"{shown}={problem['input']!r} has to be {rule}" if rule else f"{shown}: {problem['msg']}"


def _rule(kind: str, context: Mapping[str, Any], given: object) -> str:
    if kind in COMPARISONS:
        return COMPARISONS[kind].format_map(context)
    if kind == "literal_error":
        choices = [choice.strip("'") for choice in context["expected"].replace(" or ", ", ").split(", ")]
        return f"one of: {', '.join(choices)}{did_you_mean(str(given), choices, '. D')}"
    return RULES.get(kind, "")


def did_you_mean(text: str, known: list[str], begin: str = ": d", prefix: str = "") -> str:
    """The end of a sentence about a name that does not exist: the nearest one that does, or nothing."""
    import difflib  # when something is wrong

    close = difflib.get_close_matches(text, known, 1)
    return f"{begin}id you mean {prefix + close[0]!r}?" if close else ""
