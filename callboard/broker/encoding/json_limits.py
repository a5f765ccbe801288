"""JSON within limits: what `limits.unpack` does with a body that a person or another language wrote."""

from __future__ import annotations

import re
from math import isfinite
from typing import Any, Final

from pydantic_core import from_json as parse

from callboard.broker.errors import DecodeError

STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)


def from_json(body: bytes, max_depth: int, max_elements: int, allow_nan: bool) -> Any:
    """Decodes JSON.

    Raises:
        DecodeError: it is no JSON, nested too deep, holds too many values, a key twice, a whole number beyond
            64 bits, or a NaN or infinity that is not allowed.
    """
    bare = STRING.sub(b"", body)
    if bare.count(b",") + bare.count(b"[") + bare.count(b"{") > max_elements:
        raise DecodeError(f"the body holds more than {max_elements:,} values")
    try:
        value = parse(body, allow_inf_nan=allow_nan)
    except (ValueError, RecursionError, MemoryError) as error:
        raise DecodeError(f"broken JSON: {error}") from error
    if _check([value], max_depth, allow_nan) != bare.count(b":"):
        raise DecodeError("an object has the same key twice")
    return value


def _check(level: list[Any], max_depth: int, allow_nan: bool) -> int:
    """Looks at every value, level by level; returns the number of keys."""
    keys = depth = 0
    while level:
        below: list[Any] = []
        for item in level:
            if type(item) is dict:
                keys += len(item)
                below += item.values()
            elif type(item) is list:
                below += item
            else:
                _check_scalar(item, allow_nan)
        depth += any(type(item) is dict or type(item) is list for item in level)
        if depth > max_depth:
            raise DecodeError(f"the body is nested deeper than {max_depth}")
        level = below
    return keys


def _check_scalar(item: Any, allow_nan: bool) -> None:
    if type(item) is int and not -(2**63) <= item < 2**64:
        raise DecodeError("a whole number does not fit into 64 bits")
    if type(item) is float and not allow_nan and not isfinite(item):
        raise DecodeError(f"{item} is not accepted as a number")
