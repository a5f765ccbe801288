"""Clients of Chroma, and its errors as ours. Only here chromadb is imported when the program runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callboard.foundation.errors import MissingPackageError
from callboard.memory.errors import FilterError, LongTermMemoryError, StoreError, StoreUnavailableError

from .config import (
    ChromaDBVectorMemoryConfig,
    HttpChromaDBVectorMemoryConfig,
    PersistentChromaDBVectorMemoryConfig,
)

if TYPE_CHECKING:
    from chromadb.api import ClientAPI


def address_of(config: ChromaDBVectorMemoryConfig) -> str:
    """Where a store is, for errors."""
    if isinstance(config, HttpChromaDBVectorMemoryConfig):
        return f"{'https' if config.ssl else 'http'}://{config.host}:{config.port}"
    if isinstance(config, PersistentChromaDBVectorMemoryConfig):
        return str(config.persistence_path)
    return "this process"


def new_client(config: ChromaDBVectorMemoryConfig, number: int) -> ClientAPI:
    """A client.

    Args:
        config: Of the store.
        number: How often its folder was replaced. Chroma keeps one system for each name of a folder, that of the deleted
            one too, as long as any memory uses it; so a folder that took its place needs a name of its own.
    """
    chromadb = chromadb_module()
    common = {
        "settings": chromadb.config.Settings(anonymized_telemetry=False),
        "tenant": config.tenant,
        "database": config.database,
    }
    client: ClientAPI
    if isinstance(config, HttpChromaDBVectorMemoryConfig):
        headers = dict(config.headers or {})
        client = chromadb.HttpClient(config.host, config.port, config.ssl, headers, **common)
    elif isinstance(config, PersistentChromaDBVectorMemoryConfig):
        client = chromadb.PersistentClient(
            f"{Path(config.persistence_path).resolve()}{'/.' * number}", **common
        )
    else:
        client = chromadb.EphemeralClient(**common)
    return client


def close_connections(client: ClientAPI) -> None:
    """Close the connections to a server: Chroma's own `close` leaves them open (chromadb 1.5), and it has two sessions."""
    for owner in (client, getattr(client, "_admin_client", None)):
        session = getattr(getattr(owner, "_server", None), "_session", None)
        if session is not None:
            session.close()


def chromadb_module() -> Any:
    """The library; imported when it is first needed, which takes a second."""
    try:
        import chromadb
        import chromadb.config
        import chromadb.errors
    except ModuleNotFoundError:
        raise MissingPackageError("chromadb", "memory") from None
    return chromadb


@contextlib.contextmanager
def explained(action: str, collection: str, place: str) -> Iterator[None]:
    """Raise errors of Chroma, its HTTP client and the file system as ours."""
    try:
        yield
    except LongTermMemoryError:
        raise
    except OSError as error:
        raise StoreUnavailableError(place, error.strerror or str(error)) from error
    except Exception as error:
        text = str(error) or type(error).__name__
        module = type(error).__module__.partition(".")[0]
        if module.startswith("http") or "Could not connect" in text:
            raise StoreUnavailableError(place, text) from error
        if "where" in text and action in ("look", "delete"):
            raise FilterError(text) from error
        raise StoreError(action, collection, text) from error
