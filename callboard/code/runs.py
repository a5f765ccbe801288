"""The runs of an executor that are not over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from callboard.cancellation import CancellationToken


class Runs:
    """Counts runs, and cancels them together."""

    def __init__(self) -> None:
        self._token = CancellationToken()
        self._open: set[asyncio.Future[None]] = set()

    @contextmanager
    def new(self) -> Iterator[CancellationToken]:
        """Count one run; gives the token that is cancelled when all are."""
        ended = asyncio.get_running_loop().create_future()
        self._open.add(ended)
        try:
            yield self._token
        finally:
            self._open.discard(ended)
            ended.set_result(None)

    async def cancel(self) -> None:
        """Cancel the runs there are, and wait until they are over."""
        token, self._token = self._token, CancellationToken()
        token.cancel()
        if self._open:
            await asyncio.wait(set(self._open))
