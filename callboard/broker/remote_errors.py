"""Errors that cross processes: the same class on the other side where it is known there, else RemoteError.

Nothing is imported because an error names it: only what is builtin, of this package, or registered comes back as itself.
"""

from __future__ import annotations

import builtins
import traceback
from importlib import import_module
from typing import Any, Final

from . import errors
from .codec import pack
from .errors import BrokerError, DecodeError, EncodeError, RemoteError
from .limits import unpack

MAX_TRACE: Final = 8_000  # characters of a traceback that travel
MAX_TEXT: Final = 10_000  # characters of a message, or of a text among its arguments, that travel
MAX_ITEMS: Final = 50  # items of a list or a map among its arguments that travel
MAX_LEVELS: Final = 2  # lists in lists among its arguments that travel
MAX_BODY: Final = 100_000  # bytes; beyond it only the text travels

# Rebuilding these would end the requester's process or loop, instead of telling it what happened.
UNSAFE: Final = (StopIteration, StopAsyncIteration)

_known: dict[str, type[BaseException]] = {}
_modules: set[str] = set()


def register_error(*classes: type[BaseException]) -> None:
    """Makes error classes come back as themselves. They are made again from their `args` and attributes."""
    for cls in classes:
        _known[_name(cls)] = cls


def register_errors_of(*modules: str) -> None:
    """The same for all error classes of these modules, which are imported when the first of their errors comes."""
    _modules.update(modules)


def encode_error(error: BaseException) -> bytes:
    """An error as bytes: class, text, arguments and attributes as far as they are plain data, the traceback.

    Never fails: what can't travel becomes text.
    """
    text, trace = text_of(error), trace_of(error)
    described: dict[str, Any] = {
        "type": _name(type(error)),
        "text": text,
        "args": [_plain(value) for value in _args(error)],
        "fields": {name: _plain(value) for name, value in vars(error).items() if not name.startswith("_")},
        "trace": trace,
    }
    try:
        body = pack(described)
    except EncodeError:
        body = b""
    if body and len(body) <= MAX_BODY:
        return body
    text = _ascii(text)[:MAX_TEXT]
    return pack(described | {"text": text, "args": [text], "fields": {}, "trace": _ascii(trace)[-MAX_TRACE:]})


def decode_error(body: bytes) -> BaseException:
    """The error again. Its traceback on the other side is a note of it.

    An error of a class that is not known here becomes RemoteError with the name, the text and the traceback. Never
    fails, whatever the bytes are.
    """
    try:
        described = unpack(body)
        name, text, trace = str(described["type"]), str(described["text"]), str(described["trace"])
        error = _make(name, text, trace, list(described["args"]), dict(described["fields"]))
    except (DecodeError, KeyError, TypeError, ValueError) as broken:
        return RemoteError("unknown", f"the error itself can't be read: {broken}")
    if trace:
        BaseException.add_note(error, f"raised in another agent:\n{trace}")
    return error


def _name(cls: type[BaseException]) -> str:
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def _class_of(name: str) -> type[BaseException] | None:
    if name in _known:
        return _known[name]
    module, _, short = name.rpartition(".")
    if module == errors.__name__:
        found = getattr(errors, short, None)
        return found if isinstance(found, type) and issubclass(found, BrokerError) else None
    if module in _modules:
        found = getattr(import_module(module), short, None)
        is_own = isinstance(found, type) and issubclass(found, Exception) and _name(found) == name
        return found if is_own else None
    found = getattr(builtins, name, None)
    is_error = isinstance(found, type) and issubclass(found, Exception) and not issubclass(found, UNSAFE)
    return found if is_error else None


def _args(error: BaseException) -> tuple[Any, ...]:
    """Its arguments; the names of files are no part of `args`, though the constructor takes them."""
    if isinstance(error, OSError) and len(error.args) == 2 and error.filename is not None:
        more = () if error.filename2 is None else (None, error.filename2)
        return (*error.args, error.filename, *more)
    return error.args


def _make(name: str, text: str, trace: str, args: list[Any], fields: dict[str, Any]) -> BaseException:
    cls = _class_of(name)
    if cls is None:
        return RemoteError(name, text, trace)
    try:
        error = _remade(cls, args, fields, text)
        str(error)  # may need attributes that did not come along
        return error
    except Exception:  # noqa: BLE001  (the class may do anything in any of its methods; the caller still gets an error)
        return RemoteError(name, text, trace)


def _remade(cls: type[BaseException], args: list[Any], fields: dict[str, Any], text: str) -> BaseException:
    """A builtin through its own constructor, others without their __init__, whose parameters are not known here."""
    if cls.__module__ == "builtins":
        error = cls(*args)
        _check_positions(error)
    else:
        error = cls.__new__(cls, *args)
        error.args = tuple(args)
    for field, value in fields.items():
        if field.startswith("__") or hasattr(_builtin_base(cls), field):
            continue  # no instance has such an attribute: the sender did not take it from an error
        try:
            setattr(error, field, value)
        except AttributeError:
            continue  # a read-only attribute is made from args
    if text_of(error) != text and not args:
        error.args = (text,)
    return error


def _builtin_base(cls: type[BaseException]) -> type[BaseException]:
    return next(base for base in cls.__mro__ if base.__module__ == "builtins")


def _check_positions(error: BaseException) -> None:
    """Raises ValueError for positions outside of the text: `str()` of such an error reads the memory there (Python 3.11)."""
    if isinstance(error, UnicodeDecodeError | UnicodeEncodeError | UnicodeTranslateError) and not (
        0 <= error.start <= error.end <= len(error.object)
    ):
        raise ValueError("a position is outside of the text")


def text_of(error: BaseException) -> str:
    """The text of an error; never fails, whatever its class does."""
    try:
        return str(error)[:MAX_TEXT]
    except Exception as broken:  # noqa: BLE001  (__str__ of an application's error may do anything)
        return f"<its text can't be made: {type(broken).__name__}>"


def trace_of(error: BaseException) -> str:
    """Its traceback, the last part of a long one; never fails."""
    try:
        return "".join(traceback.format_exception(error))[-MAX_TRACE:]
    except Exception as broken:  # noqa: BLE001  (it calls __str__ of the error and of its causes)
        return f"<its traceback can't be made: {type(broken).__name__}>"


def _ascii(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()


def _plain(value: Any, level: int = 0) -> Any:
    """The part of a value that can travel: text that is too long is cut, and what is no plain data becomes its repr."""
    if value is None or type(value) in (bool, float, int):
        return value if type(value) is not int or -(2**63) <= value < 2**64 else str(value)[:MAX_TEXT]
    if isinstance(value, str | bytes):
        return value[:MAX_TEXT]
    if level < MAX_LEVELS and isinstance(value, list | tuple):
        return [_plain(item, level + 1) for item in value[:MAX_ITEMS]]
    if level < MAX_LEVELS and isinstance(value, dict):
        return {str(key)[:MAX_TEXT]: _plain(item, level + 1) for key, item in list(value.items())[:MAX_ITEMS]}
    return _shown(value)


def _shown(value: Any) -> str:
    try:
        return repr(value)[:MAX_TEXT]
    except Exception as broken:  # noqa: BLE001  (__repr__ of anything)
        return f"<{type(value).__name__}, its repr failed with {type(broken).__name__}>"
