"""The token that says stop to work in progress, and the suspension of a handler that waits for an answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from asyncio import Future

    _FutureT = TypeVar("_FutureT", bound=Future[Any])


class CancellationToken:
    """A token that cancels pending calls, from any thread, once.

    Callbacks run outside the token's lock, in the order in which they were added, in the thread that cancels;
    so a callback may ask ``is_cancelled`` or cancel another token. All of them run even when one raises.
    """

    __slots__ = ("__weakref__", "_callbacks", "_cancelled", "_lock")

    def __init__(self) -> None:
        self._cancelled = False
        self._lock = threading.Lock()
        self._callbacks: dict[object, Callable[[], None]] | None = None

    def cancel(self) -> None:
        """Cancel everything linked to this token. Only the first call does anything.

        Raises:
            Exception: What a callback raised, after all of them ran; an ExceptionGroup when several did.
        """
        with self._lock:
            if self._cancelled:
                return
            self._cancelled = True
            callbacks, self._callbacks = self._callbacks, None
        if callbacks:
            _run_all(callbacks.values())

    def is_cancelled(self) -> bool:
        """Whether ``cancel`` was called."""
        return self._cancelled

    def add_callback(self, callback: Callable[[], None]) -> None:
        """Call something when the token is cancelled; at once when it already is.

        Args:
            callback: Called without arguments in the thread that cancels.
        """
        if self._keep(object(), callback):
            return
        callback()

    def link_future(self, future: _FutureT) -> _FutureT:
        """Cancel a future or task when the token is cancelled; at once when it already is.

        A future whose loop runs in another thread is cancelled in that thread. The link ends when the future
        is done.

        Args:
            future: Any asyncio future or task.

        Returns:
            The same future.
        """
        link = object()
        if self._keep(link, lambda: _cancel_future(future)):
            future.add_done_callback(lambda _: self._forget(link))
        else:
            _cancel_future(future)
        return future

    def _keep(self, key: object, callback: Callable[[], None]) -> bool:
        with self._lock:
            if self._cancelled:
                return False
            if self._callbacks is None:
                self._callbacks = {}
            self._callbacks[key] = callback
            return True

    def _forget(self, key: object) -> None:
        with self._lock:
            if self._callbacks is not None:
                self._callbacks.pop(key, None)

    def __repr__(self) -> str:
        return f"<CancellationToken {'cancelled' if self._cancelled else 'open'}>"


def _run_all(callbacks: Any) -> None:
    errors: list[Exception] = []
    for callback in callbacks:
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - raised below, when all have run
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ExceptionGroup("several callbacks of a cancellation token failed", errors)


def _cancel_future(future: Future[Any]) -> None:
    loop = future.get_loop()
    if not loop.is_running() or _is_loop_of_this_thread(loop):
        future.cancel()
    else:
        loop.call_soon_threadsafe(future.cancel)


def _is_loop_of_this_thread(loop: object) -> bool:
    # Imported here: asyncio is a third of the time that `import actors` takes.
    from asyncio import get_running_loop

    try:
        return get_running_loop() is loop
    except RuntimeError:
        return False


class Unset(Enum):
    """Type of UNSET, which stands for a value that was not given, where None is one."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


class Suspended(BaseException):
    """The handler has asked something and ends here: it runs again when the answer has come.

    The runtime raises it out of `ctx.ask`, and ends the delivery by it. Let it pass, as you would CancelledError; what
    catches it changes nothing, since the attempt is over and nothing of it is committed.
    """


def suspends(error: BaseException) -> bool:
    """Whether a handler ends with this to wait for an answer: a task group makes a group of it."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(Suspended) is not None
    return isinstance(error, Suspended)
