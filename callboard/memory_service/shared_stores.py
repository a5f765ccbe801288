"""The stores that a memory service has open in one process."""

from __future__ import annotations

from collections.abc import Callable

from callboard.memory.stores.base import MemoryStore


class SharedStores:
    """The stores of one process, one for each memory: who changes a memory and who looks something up share it.

    Args:
        open_store: Makes the store of a memory.
    """

    def __init__(self, open_store: Callable[[str], MemoryStore]) -> None:
        self._open_store = open_store
        self._opened: dict[str, tuple[MemoryStore, int]] = {}

    def take(self, name: str) -> MemoryStore:
        """The store of a memory, to be given back."""
        store, users = self._opened.get(name) or (self._open_store(name), 0)
        self._opened[name] = (store, users + 1)
        return store

    async def give_back(self, name: str) -> None:
        """Let go of the store; its last user closes it."""
        store, users = self._opened[name]
        if users > 1:
            self._opened[name] = (store, users - 1)
            return
        del self._opened[name]
        await store.close()
