"""Functions of the user's, which may be async or not."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def called(function: Callable[[T], Any], given: T) -> Any:
    """What a function returns, awaited where that is needed."""
    result = function(given)
    return await result if inspect.isawaitable(result) else result
