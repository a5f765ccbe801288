"""What the value of a setting may be, how it is read from text, and the sentence about one that can't work.

Not by pydantic: every process makes settings before anything else, and a class of pydantic with so many fields takes a
twelfth of what a worker does until its first message.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from dataclasses import field, fields
from typing import Any, Final, NamedTuple, TypeVar, cast

from .errors import SettingsError

T = TypeVar("T")
SIZES: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}
SWITCHES: Final = {
    **dict.fromkeys(("1", "true", "t", "yes", "y", "on"), True),
    **dict.fromkeys(("0", "false", "f", "no", "n", "off"), False),
}
"""How a switch is written in the environment, in any case."""


class RuleError(ValueError):
    """A value does not fit; the text says what it has to be."""


class Rule(NamedTuple):
    """What the value of a setting may be.

    Attributes:
        check: Returns a value as the setting has it, or raises a RuleError.
        read: Makes a value of a text of the environment, or leaves what is none.
        unit: What its number counts, or "".
    """

    check: Callable[[Any], Any]
    read: Callable[[str], Any] = str
    unit: str = ""

    def apply(self, shown: str, value: Any, *, is_text: bool = False) -> Any:
        """The value as the setting has it.

        Args:
            shown: The name of the setting in a sentence.
            value: What was given.
            is_text: A number or a switch may be written as text.

        Raises:
            SettingsError: It can't be used.
        """
        try:
            return self.check(self.read(value) if is_text and isinstance(value, str) else value)
        except RuleError as error:
            raise SettingsError(f"{shown}={value!r} has to be {error}") from None
        except SettingsError as error:
            raise SettingsError(f"{shown}: {error}") from None


def setting(default: T, rule: Rule, meaning: str) -> T:
    """A field of a class of settings; its default has to fit the rule."""
    return field(default=default, metadata={"rule": rule, "meaning": meaning})


def checked(settings: type[T]) -> type[T]:
    """Makes the constructor of a frozen dataclass of settings check what it gets.

    The constructor raises a SettingsError for a value that its rule does not allow, and for a setting that does not exist.
    """
    construct = cast("Any", settings).__init__
    specs = {spec.name: spec for spec in fields(cast("Any", settings))}

    @functools.wraps(construct)
    def check_and_construct(self: Any, /, *positional: Any, **values: Any) -> None:
        for name, value in values.items():
            spec = specs.get(name)
            if spec is None:
                raise SettingsError(f"there is no setting {name!r}{did_you_mean(name, list(specs))}")
            if value is not spec.default:
                values[name] = spec.metadata["rule"].apply(name, value)
        construct(self, *positional, **values)

    cast("Any", settings).__init__ = check_and_construct
    return settings


def did_you_mean(text: str, known: list[str], begin: str = ": d", prefix: str = "") -> str:
    """The end of a sentence about a name that does not exist: the nearest one that does, or nothing."""
    import difflib

    close = difflib.get_close_matches(text, known, 1)
    return f"{begin}id you mean {prefix + close[0]!r}?" if close else ""


def parse_size(text: str) -> int:
    """Bytes from a number with or without a unit: 500MB (10^6 bytes), 64MiB (2^20 bytes), 1.5G, 1048576.

    Raises:
        SettingsError: it is something else.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]i?)?b?", text.strip().lower())
    if found is None:
        raise SettingsError(
            f"{text!r} is no size: write a number of bytes, or one with a unit such as 500MB or 2GiB"
        )
    return int(float(found[1]) * SIZES[found[2] or ""])


# The rules


def seconds(*, or_zero: bool = False) -> Rule:
    """A time."""

    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise RuleError("a number")
        return float(_large_enough(value, or_zero))

    return Rule(check, _number_of, "seconds")


def count(unit: str, *, or_zero: bool = False) -> Rule:
    """A whole number of something."""

    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise RuleError("a whole number")
        return _large_enough(value, or_zero)

    return Rule(check, _whole_number_of, unit)


def size(*, or_zero: bool = False) -> Rule:
    """Bytes; text with a unit is read from code as well."""
    number = count("bytes", or_zero=or_zero)
    return Rule(
        lambda value: number.check(parse_size(value) if isinstance(value, str) else value), unit="bytes"
    )


def choice(*choices: str) -> Rule:
    """One of these."""

    def check(value: Any) -> str:
        if value not in choices:
            nearest = did_you_mean(str(value), list(choices), ". D")
            raise RuleError(f"one of: {', '.join(choices)}{nearest}")
        return cast("str", value)

    return Rule(check)


def _text(value: Any) -> str | None:
    if value is not None and (not isinstance(value, str) or not value):
        raise RuleError("text")
    return value


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise RuleError("1 or 0" if isinstance(value, str) else "True or False")
    return value


TEXT: Final = Rule(_text)
"""Text that is not empty, or None."""

SWITCH: Final = Rule(_switch, lambda text: SWITCHES.get(text.strip().lower(), text))


def _large_enough(value: T, or_zero: bool) -> T:
    number = cast("float", value)
    if number < 0 or (number == 0 and not or_zero):
        raise RuleError("at least 0" if or_zero else "more than 0")
    return value


def _number_of(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _whole_number_of(text: str) -> int | str:
    number = _number_of(text)  # 100.0 is one
    if isinstance(number, float) and number.is_integer():
        return int(text) if text.strip().isdecimal() else int(number)  # a float has 53 bits
    return text
