"""The results of tools as text for models."""

from __future__ import annotations

from typing import Any, Final

import pydantic_core

from .errors import ToolReturnError

SENTENCE: Final = 100
"""Characters that the sentence on what is missing may have."""


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


def cut(text: str, limit: int, whole: int | None = None) -> str:
    """The beginning of a text, and a sentence that says how much is missing; a text within the limit as it is.

    Both together are within the limit, so that what was cut is not cut again on its way.

    Args:
        text: The text.
        limit: The most characters; more than SENTENCE.
        whole: The characters of all that would have been shown; None: those of the text.
    """
    whole = len(text) if whole is None else whole
    if whole <= limit:
        return text
    kept = text[: limit - SENTENCE]
    missing = f"[cut here: {whole - len(kept):,} of {whole:,} characters are missing]"
    return f"{kept}... {missing}" if kept else missing


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
