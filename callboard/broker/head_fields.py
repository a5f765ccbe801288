"""The fields of an envelope's head: the short name of each, and what its value has to be where an entry is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from .errors import DecodeError

KINDS: Final = frozenset({"event", "request", "reply"})


def _kind(value: Any, name: str) -> str:
    if type(value) is not str or value not in KINDS:
        raise _wrong(name, f"one of {', '.join(sorted(KINDS))}")
    return value


def _text(value: Any, name: str) -> str:
    if type(value) is not str:
        raise _wrong(name, "text")
    return value


def _texts(value: Any, name: str) -> tuple[str, ...]:
    if type(value) is not list or not all(type(item) is str for item in value):
        raise _wrong(name, "a list of texts")
    return tuple(value)


def _time(value: Any, name: str) -> int:
    if type(value) is not int or value < 0:
        raise _wrong(name, "a number of milliseconds")
    return value


def _version(value: Any, name: str) -> int:
    if type(value) is not int or value < 1:
        raise _wrong(name, "a whole number, at least 1")
    return value


def _flag(value: Any, name: str) -> bool:
    if type(value) is not bool:
        raise _wrong(name, "true or false")
    return value


def _routes(value: Any, name: str) -> dict[str, tuple[str, str]]:
    if type(value) is not dict:
        raise _wrong(name, "a map of pairs of texts")
    made = {agent: _texts(pair, name) for agent, pair in value.items()}
    if any(len(pair) != 2 for pair in made.values()):
        raise _wrong(name, "a map of pairs of texts")
    return {agent: (pair[0], pair[1]) for agent, pair in made.items()}


def _wrong(name: str, wanted: str) -> DecodeError:
    return DecodeError(f"the field `{name}` of the head has to be {wanted}")


HEAD_FIELDS: Final[Mapping[str, tuple[str, Callable[[Any, str], Any]]]] = {
    "kind": ("k", _kind),
    "topic": ("t", _text),
    "reply_to": ("r", _text),
    "recorded": ("j", _flag),
    "cause": ("c", _text),
    "chain": ("h", _texts),
    "deadline": ("d", _time),
    "expires_in": ("l", _time),
    "cancellable": ("q", _flag),
    "version": ("v", _version),
    "error": ("e", _flag),
    "claimed": ("b", _flag),
    "routes": ("w", _routes),
    "run": ("u", _text),
    "if_buried": ("f", _flag),
}
