"""Text from elsewhere: JSON of models and people, what is safe to print or paste, and whose line of code an error names."""

from __future__ import annotations

import json
import math
import os
import shlex
import sysconfig
from functools import cache
from pathlib import Path
from typing import Any, Final

from . import CallboardError

# A key may hold anything, also what moves a terminal's cursor or begins a line of its own. Written as JSON writes it.
# Marks of direction let a text be read in another order than it has, such as the arguments of a call that a person allows.
_DIRECTIONS: Final = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_NUMBERS: Final = (*range(32), *range(127, 160), 0x2028, 0x2029, *_DIRECTIONS)
_CONTROLS: Final = {number: f"\\u{number:04x}" for number in _NUMBERS}
_BUT_LINES: Final = {number: text for number, text in _CONTROLS.items() if chr(number) not in "\n\t"}


def one_line(text: str) -> str:
    r"""A text with `\u001b` for each control character, ends of lines among them."""
    return text if text.isprintable() else text.translate(_CONTROLS)


def printable(text: str) -> str:
    r"""A text with `\u001b` for each control character but ends of lines and tabs."""
    return text if text.isprintable() else text.translate(_BUT_LINES)


def shell_line(*words: object) -> str:
    """Words as a command that can be pasted into a shell: what others have chosen of it, such as a key, stays one word."""
    return one_line(shlex.join(map(str, words)))


@cache
def is_ours(file: str) -> bool:
    """Whether a file is Callboard's."""
    return _real(file).startswith(_our_folder())


@cache
def is_users(file: str) -> bool:
    """Whether a file is the user's: not Callboard's, of Python's library or of an installed package."""
    if file.startswith("<"):
        return False
    path = _real(file)
    is_installed = {"site-packages", "dist-packages"} & set(Path(path).parts)
    return not (is_ours(file) or is_installed or path.startswith(_python_folders()))


def _real(file: str) -> str:
    try:
        return os.path.realpath(file)
    except OSError:  # the current folder was deleted
        return file


@cache
def _our_folder() -> tuple[str, ...]:
    return _as_beginnings(Path(__file__).parents[1])


@cache
def _python_folders() -> tuple[str, ...]:
    return _as_beginnings(*(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")))


def _as_beginnings(*folders: Path) -> tuple[str, ...]:
    return tuple(os.path.realpath(folder) + os.sep for folder in folders)


MAX_DEPTH: Final = (
    100  # lists and objects in each other: no answer needs ten, and Python gives up near a thousand
)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. One that has a key twice is refused: who checks it and who uses it may read two values."""
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} is there twice")
    return made


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)  # such as 1e999


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_number, parse_float=_finite)


class NestingError(CallboardError, ValueError):
    """A text is nested too deep.

    Attributes:
        most: How many lists and objects may stand in each other.
    """

    template = "it is nested deeper than {most} lists and objects"
    most: int = MAX_DEPTH


def read_json(text: str, *, is_strict: bool = True) -> Any:
    """The value that a JSON text stands for.

    Args:
        text: The text.
        is_strict: Whether NaN, numbers without end and objects that have a key twice are refused.

    Raises:
        NestingError: It is nested too deep (a ValueError).
        ValueError: It is no JSON.
    """
    try:
        value = _DECODER.decode(text) if is_strict else json.loads(text)
    except RecursionError:
        raise NestingError from None
    _check(value, text)
    return value


def read_value(text: str, position: int) -> tuple[Any, int]:
    """The JSON value that begins at a position of a text, and the position behind it.

    Raises:
        NestingError: It is nested too deep (a ValueError).
        ValueError: None begins there.
    """
    try:
        value, end = _DECODER.raw_decode(text, position)
    except RecursionError:
        raise NestingError from None
    _check(value, text)
    return value, end


def _check(value: Any, text: str) -> None:
    # Most texts have fewer brackets than may be in each other.
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer)]
        level = [inner for inner in level if isinstance(inner, dict | list)]
        if not level:
            return
    raise NestingError
