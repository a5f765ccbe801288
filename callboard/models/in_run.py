"""Clients inside runs: what a run uses is counted, and kept within its budget, whatever its clients were made of."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from callboard.runtime.execution import current

from .base import ChatCompletionClient
from .budget import MeteredChatCompletionClient
from .errors import BudgetHeldError
from .request import ModelRequest, WrappedChatCompletionClient
from .settings import DEFAULTS
from .stores import RuntimeStore, Store, is_of_handler
from .usage import UsageLedger, run_scopes

PAUSE: Final = 0.02  # seconds between two tries while other requests of a run hold what this one needs

# Where the usage of a run in this process is kept, which is in no handler.
store_here: ContextVar[Store | None] = ContextVar("callboard_run_store", default=None)


@contextmanager
def counted_here(store: Store) -> Iterator[None]:
    """Count what is used in the `with` block in a store of this process, as far as that is in no handler of the bus."""
    token = store_here.set(store)
    try:
        yield
    finally:
        store_here.reset(token)


def store_of_run() -> Store | None:
    """Where the run that is under way here counts: on the server in a handler; None: nothing counts here."""
    of_handler = RuntimeStore()
    return of_handler if is_of_handler(of_handler) else store_here.get()


def in_run(client: ChatCompletionClient) -> ChatCompletionClient:
    """The client for a request that is made now: inside a run it is one that is metered for the run.

    In a handler the sums are kept on the server, so that all processes count together. A client that is metered there
    already (`MeteredChatCompletionClient` with a store on the server) stays as it is, so nothing counts twice. Prices are
    those of the MeteredChatCompletionClient that it contains, wherever that one keeps its own sums.

    Args:
        client: with whatever is around it.
    """
    store = store_of_run()
    if store is None or not run_scopes():
        return client
    settings = DEFAULTS
    for metered in metered_in(client):
        if metered.ledger.store is store or is_of_handler(metered.ledger.store):
            return client
        settings = metered.ledger.settings
    return _MeteredInRun(client, UsageLedger(store, settings))


def metered_in(client: ChatCompletionClient) -> Iterator[MeteredChatCompletionClient]:
    """The metered clients that a client is made of."""
    while isinstance(client, WrappedChatCompletionClient):
        if isinstance(client, MeteredChatCompletionClient):
            yield client
        client = client.client


class _MeteredInRun(MeteredChatCompletionClient):
    """Counts for runs only; and without a limit it sets nothing aside, which spares counting the prompt's tokens."""

    def _scopes(self) -> tuple[str, ...]:
        return run_scopes()

    async def _hold(self, where: tuple[str, ...], hold_id: str, request: ModelRequest) -> None:
        if await self.ledger.begin(where, hold_id):
            return
        while True:
            try:
                await super()._hold(where, hold_id, request)
            except BudgetHeldError:
                if current.get() is not None:
                    raise  # the bus tries the message again
                await asyncio.sleep(PAUSE)
            else:
                return
