"""A cancellation token that knows what was linked to it, to see that it keeps nothing of it."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any, TypeVar

from callboard import CancellationToken

FutureT = TypeVar("FutureT", bound="asyncio.Future[Any]")


class WatchedToken(CancellationToken):
    """A token; `kept` says what of that which was linked to it is still alive.

    Attributes:
        links: How many futures were linked.
    """

    def __init__(self) -> None:
        super().__init__()
        self._linked: list[weakref.ref[asyncio.Future[Any]]] = []

    @property
    def links(self) -> int:
        return len(self._linked)

    def link_future(self, future: FutureT) -> FutureT:
        self._linked.append(weakref.ref(future))
        return super().link_future(future)

    def kept(self) -> list[asyncio.Future[Any]]:
        """The futures that are still there, because the token or somebody else holds them."""
        gc.collect()
        return [future for one in self._linked if (future := one()) is not None]
