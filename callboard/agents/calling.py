"""Calls of functions that a user gave to an agent."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from callboard.cancellation import CancellationToken
from callboard.foundation.threads import in_thread
from callboard.memory.cancelling import cancellable

T = TypeVar("T")


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await; also for partials and objects with ``__call__``."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or (
        not inspect.isroutine(function) and inspect.iscoroutinefunction(type(function).__call__)
    )


async def call(
    function: Callable[..., T] | Callable[..., Awaitable[T]], *args: object, token: CancellationToken | None
) -> T:
    """What a function returns, be it async or not.

    An ordinary one runs in a thread, so that the event loop goes on while it blocks. It can't be stopped from outside: when
    the token is cancelled nobody waits for it any more.

    Args:
        function: The function.
        *args: Its arguments.
        token: Ends the wait.

    Raises:
        asyncio.CancelledError: The token was cancelled.
        Exception: Any error of the function.
    """
    return await cancellable(_called(function, *args), token)


def takes_token(function: Callable[..., Any]) -> bool:
    """Whether a function that asks has a second parameter, after the prompt, for a cancellation token.

    That of an async one is for nothing else. That of an ordinary one may be for something else if it has a default.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # some builtins don't tell
        return is_async(function)
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return is_async(function)
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if len(positional) < 2:
        return False
    second = positional[1]
    return is_async(function) or second.default is second.empty or second.name == "cancellation_token"


async def _called(function: Callable[..., Any], *args: object) -> Any:
    if is_async(function):
        return await function(*args)
    result = await in_thread("callboard-function-of-user", functools.partial(function, *args))
    return await result if inspect.isawaitable(result) else result
