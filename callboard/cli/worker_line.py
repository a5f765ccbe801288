"""The command line of a worker, read without typer, and durations as people write them.

A worker runs for days, and there are many: what typer and its options take would be for nothing once the line is read. That
is 1.7 MB of memory, and a tenth of the instructions to the first message (docs/speed.md). Only what is plainly right is
read here. Help and every mistake are left to typer, which knows what to say.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_AMOUNT: Final = r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)"


def seconds_of(text: str) -> float:
    """Seconds of a duration such as `90s`, `1h30m`, `2d` or `500ms`; a plain number is seconds.

    Raises:
        ValueError: It is something else.
    """
    text = text.strip().lower()
    with contextlib.suppress(ValueError):
        if math.isfinite(plain := float(text)) and plain >= 0:
            return plain
    if not re.fullmatch(rf"(?:{_AMOUNT}\s*)+", text):
        raise ValueError(f"{text!r} is no duration: write 90s, 1h30m, 2d or 500ms; a plain number is seconds")
    return sum(float(number) * UNITS[unit] for number, unit in re.findall(_AMOUNT, text))


COMMAND: Final = "worker"


class WorkerLine(NamedTuple):
    """The line of `callboard worker`; its options are explained where it declares them."""

    target: str
    types: tuple[str, ...] = ()
    url: str | None = None
    namespace: str | None = None
    grace: float | None = None
    max_memory: str | None = None
    max_messages: int | None = None
    health_file: Path | None = None
    metrics_port: str | None = None
    folder: Path | None = None
    watch: int | None = None


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{text!r} is no number of things")
    return int(text)


VALUES: Final[Mapping[str, Callable[[str], Any]]] = {
    "type": str,
    "url": str,
    "namespace": str,
    "grace": seconds_of,
    "max_memory": str,
    "max_messages": _count,
    "health_file": Path,
    "metrics_port": str,
    "folder": Path,
    "watch": _count,
}
"""The options, each with what makes its value of a text; a ValueError leaves the line to typer."""


def read_worker_line(words: Sequence[str]) -> WorkerLine | None:
    """The line of a worker; None: it is another command's, or not plainly right, and typer is to read it.

    Args:
        words: The command line without the program's name.
    """
    if not words or words[0] != COMMAND:
        return None
    try:
        return _line_of(list(_pairs(words[1:])))
    except ValueError:
        return None


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each option with the text of its value; "" with what is no option."""
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            yield "", word
            continue
        option, equals, text = word.partition("=")
        value = text if equals else next(rest, "")
        if not option.startswith("--") or not value or value.startswith("-"):
            raise ValueError(word)
        yield option, value


def _line_of(pairs: Sequence[tuple[str, str]]) -> WorkerLine:
    names = {f"--{name.replace('_', '-')}": name for name in VALUES}
    targets = [text for option, text in pairs if not option]
    types = [text for option, text in pairs if option == "--type"]
    others = [(option, text) for option, text in pairs if option not in ("", "--type")]
    is_known = len(dict(others)) == len(others) and names.keys() >= dict(others).keys()
    if len(targets) != 1 or not targets[0] or not is_known:
        raise ValueError(" ".join(targets))
    given: dict[str, Any] = {names[option]: VALUES[names[option]](text) for option, text in others}
    return WorkerLine(targets[0], tuple(types), **given)
