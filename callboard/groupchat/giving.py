"""Functions that take the context variables, as ones that the model's arguments are enough for."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

from .sharing import current_variables

PARAMETER: Final = "context_variables"


def with_variables(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function without a parameter for the context variables: it gets those that are in force."""
    signature = inspect.signature(function)
    if PARAMETER not in signature.parameters:
        return function

    @functools.wraps(function)
    def given(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs, context_variables=current_variables())

    @functools.wraps(function)
    async def given_async(*args: Any, **kwargs: Any) -> Any:
        return await function(*args, **kwargs, context_variables=current_variables())

    left = [one for name, one in signature.parameters.items() if name != PARAMETER]
    made: Any = given_async if inspect.iscoroutinefunction(function) else given
    made.__signature__ = signature.replace(parameters=left)
    return made  # type: ignore[no-any-return]
