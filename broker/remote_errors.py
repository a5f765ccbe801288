"""Errors that cross processes: the same class on the other side where it is known there, else RemoteError."""

from __future__ import annotations

import builtins
import traceback
from typing import Any

from . import errors
from .errors import BrokerError, DecodeError, RemoteError
from .limits import unpack
from .payload import pack

MAX_TRACE = 8000  # characters of a traceback that travel

_known: dict[str, type[BaseException]] = {}


def register_error(*classes: type[BaseException]) -> None:
    """Makes error classes come back as themselves. They are made again from their `args` and attributes."""
    for cls in classes:
        _known[_name(cls)] = cls


def encode_error(error: BaseException) -> bytes:
    """An error as bytes: class, text, arguments and attributes as far as they are plain data, and the traceback."""
    trace = "".join(traceback.format_exception(error))[-MAX_TRACE:]
    plain = {
        "type": _name(type(error)),
        "text": _text(error),
        "args": [_plain(value) for value in error.args],
        "fields": {name: _plain(value) for name, value in vars(error).items() if not name.startswith("_")},
        "trace": trace,
    }
    return pack(plain)


def decode_error(body: bytes) -> BaseException:
    """The error again. Its traceback on the other side is a note of it.

    An error of a class that is not known here becomes RemoteError with the name, the text and the traceback.
    """
    try:
        plain = unpack(body)
        name, text, trace = str(plain["type"]), str(plain["text"]), str(plain["trace"])
        cls = _class_of(name)
        error = RemoteError(name, text, trace) if cls is None else _make(cls, plain)
    except (DecodeError, KeyError, TypeError) as broken:
        return RemoteError("unknown", f"the error itself can't be read: {broken}")
    error.add_note(f"raised in another agent:\n{trace}")
    return error


def _name(cls: type[BaseException]) -> str:
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def _class_of(name: str) -> type[BaseException] | None:
    if name in _known:
        return _known[name]
    if name.startswith("broker.errors."):
        found = getattr(errors, name.rpartition(".")[2], None)
        return found if isinstance(found, type) and issubclass(found, BrokerError) else None
    found = getattr(builtins, name, None)
    if not isinstance(found, type) or not issubclass(found, Exception):
        return None
    return found


def _make(cls: type[BaseException], plain: dict[str, Any]) -> BaseException:
    """Without calling __init__, whose parameters nobody knows here."""
    error = cls.__new__(cls)
    error.args = tuple(plain["args"])
    for name, value in plain["fields"].items():
        try:
            setattr(error, name, value)
        except AttributeError:
            continue  # a read-only attribute is made from args
    if str(error) != plain["text"] and not error.args:
        error.args = (plain["text"],)
    return error


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as broken:
        return f"<its text can't be made: {type(broken).__name__}>"


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value if not isinstance(value, int) or -(2**63) <= value < 2**64 else str(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return repr(value)
