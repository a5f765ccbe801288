"""The results of tools as text for models."""

from __future__ import annotations

from typing import Any

import pydantic_core

from .errors import ToolReturnError


def to_text(value: Any, tool: str) -> str:
    """The text that a model is given for a value.

    Text stays as it is; numbers, booleans and None are written as Python does; everything that has fields or items
    becomes JSON, where AutoGen writes Python's repr, which models misread; a class of your own becomes its ``str`` if
    it defines one.

    Args:
        value: The value that the tool returned.
        tool: Its name, for the error.

    Raises:
        ToolReturnError: It has no text of its own, holds itself, or showing it fails (a TypeError).
    """
    try:
        return clean(_text(value))
    except ToolReturnError:
        raise
    except RecursionError:
        raise ToolReturnError(tool, f"a {type(value).__name__} that is nested too deep") from None
    except Exception as error:  # __str__ and serializers of a user's class may raise anything
        raise ToolReturnError(tool, f"a {type(value).__name__} ({_reason(error)})") from error


def clean(text: str) -> str:
    """The text with lone surrogates, which no encoding takes, written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def _text(value: Any) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    if value is None or isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode()
    made = pydantic_core.to_json(value, fallback=_own_text, inf_nan_mode="strings", bytes_mode="base64")
    text = made.decode()
    # A single value that pydantic writes as a JSON string, such as a date, needs no quotes.
    is_string = text.startswith('"')
    return str(pydantic_core.from_json(text)) if is_string else text


def _own_text(value: Any) -> str:
    """The ``str`` of a value whose class says what it is; an address in memory says nothing."""
    cls = type(value)
    if not any("__str__" in vars(one) or "__repr__" in vars(one) for one in cls.__mro__[:-1]):
        raise TypeError(f"{cls.__qualname__} has no text of its own")
    if callable(value):
        raise TypeError(f"a {cls.__qualname__} is no value")
    return str(value)


def _reason(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
