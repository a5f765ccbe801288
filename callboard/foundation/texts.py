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

# A key may hold anything, also what moves a terminal's cursor, begins a line of its own, or lets a text be read in another
# order than it has, such as the arguments of a call that a person allows; or what is not seen at all, so that two names look
# alike. What joins letters and parts of emoji stays: languages are written with it.
_HIDDEN: Final = ("Cc", "Cf", "Cs", "Zl", "Zp")
_JOINERS: Final = "\u200c\u200d"


def one_line(text: str) -> str:
    r"""A text with `\u001b` for each character that is not seen, ends of lines among them. Letters' joiners stay."""
    return text if text.isprintable() else _shown(text, "")


def printable(text: str) -> str:
    r"""A text with `\u001b` for each character that is not seen, but for ends of lines, tabs and letters' joiners."""
    return text if text.isprintable() else _shown(text, "\n\t")


def _shown(text: str, but: str) -> str:
    # A text may be long, and has few different characters that can't be printed.
    return text.translate({ord(c): _seen(c) for c in set(text) if not c.isprintable() and c not in but})


def _seen(character: str) -> str:
    import unicodedata  # a megabyte, for texts that few workers ever see

    if character in _JOINERS or unicodedata.category(character) not in _HIDDEN:
        return character
    return json.dumps(character)[1:-1] if character >= "\x7f" else f"\\u{ord(character):04x}"


def shell_line(*words: object) -> str:
    r"""Words as a command that can be pasted into a shell: what others have chosen of it, such as a key, stays one word.

    A word with characters that are not seen is written in bash's and zsh's way, `$'a\012b'`, and is the same word there.
    """
    return " ".join(_word(str(word)) for word in words)


def _word(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    # By bytes, in octal: what `\u` gives depends on the shell's locale, and `\x` has no end that all shells agree on.
    return "$'" + "".join(map(_quoted, word)) + "'"


def _quoted(character: str) -> str:
    if character.isprintable():
        return f"\\{character}" if character in "\\'" else character
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", _argument(character)))


def _argument(character: str) -> str:
    # How a byte of the command line that is no UTF-8 is kept, such as the name of a folder, and all other halves of pairs.
    return "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass"


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
    """A text is nested too deep."""

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
