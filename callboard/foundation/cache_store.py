"""AutoGen's interface of caches, and its simplest implementation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Self, TypeVar

from pydantic import BaseModel

from .component import Component, ComponentBase

T = TypeVar("T")


class CacheStore(ABC, Generic[T], ComponentBase[BaseModel]):
    """Values by key, without waiting and without a lifetime: AutoGen's interface, for stores that were written for it.

    A `CachedChatCompletionClient` takes one. Stores of ours (`callboard.models.LocalStore`, `RuntimeStore`) are async
    and forget what is old.
    """

    component_type = "cache_store"

    @abstractmethod
    def get(self, key: str, default: T | None = None) -> T | None:
        """The value of a key, else the default."""

    @abstractmethod
    def set(self, key: str, value: T) -> None:
        """Keep a value."""


class InMemoryStoreConfig(BaseModel):
    """Nothing: what a store holds is no part of its config."""


class InMemoryStore(CacheStore[T], Component[InMemoryStoreConfig]):
    """A CacheStore in this process that keeps everything."""

    component_config_schema = InMemoryStoreConfig
    component_provider_override = "callboard.InMemoryStore"

    def __init__(self) -> None:
        self.store: dict[str, T] = {}

    def get(self, key: str, default: T | None = None) -> T | None:
        return self.store.get(key, default)

    def set(self, key: str, value: T) -> None:
        self.store[key] = value

    def _to_config(self) -> InMemoryStoreConfig:
        return InMemoryStoreConfig()

    @classmethod
    def _from_config(cls, config: InMemoryStoreConfig) -> Self:
        return cls()
