"""Configurations of long-term memory in Chroma: where it keeps its collection, and how it looks things up."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from .errors import setting_error
from .stores import check_k, check_threshold, check_ttl

DistanceMetric: TypeAlias = Literal["cosine", "l2", "ip"]

METRICS: Final = ("cosine", "l2", "ip")
NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{1,126}[a-zA-Z0-9]\Z")
LONGEST_CLEANED: Final = 100  # characters of a cleaned name, before its digest


@dataclass(frozen=True, kw_only=True)
class ChromaDBVectorMemoryConfig:
    """The base of all configurations. Names are AutoGen's where it has them.

    Attributes:
        collection_name: the collection; None: one for each namespace and agent, which is faster than one for all with
            a filter.
        namespace: of the agent whose memories they are.
        agent: whose memories they are, such as "writer/default".
        distance_metric: how vectors are compared, set so that Chroma uses it (Chroma ignores the one that AutoGen sets,
            and compares by l2). It can't be changed later: an existing collection keeps its own.
        k: most results of a query.
        score_threshold: lowest score of a result; None: any. See `ChromaDBVectorMemory` for what scores are.
        ttl: seconds after which a memory is forgotten; None: never.
        tenant, database: of the Chroma server.

    Raises:
        MemoryValueError: a value can't work (a ValueError).
    """

    collection_name: str | None = None
    namespace: str = "main"
    agent: str = "default"
    distance_metric: DistanceMetric = "cosine"
    k: int = 3
    score_threshold: float | None = None
    ttl: float | None = None
    tenant: str = "default_tenant"
    database: str = "default_database"

    def __post_init__(self) -> None:
        if self.collection_name is not None and not NAME.match(self.collection_name):
            rule = "3 to 128 letters, digits, '.', '_' and '-', with a letter or digit at both ends"
            raise setting_error("collection_name", repr(self.collection_name), rule)
        if self.distance_metric not in METRICS:
            rule = f"one of: {', '.join(METRICS)}"
            raise setting_error("distance_metric", repr(self.distance_metric), rule)
        check_k(self.k)
        check_threshold(self.score_threshold)
        check_ttl(self.ttl)

    @property
    def collection(self) -> str:
        """The name of the collection."""
        return self.collection_name or collection_of(self.namespace, self.agent)


@dataclass(frozen=True, kw_only=True)
class PersistentChromaDBVectorMemoryConfig(ChromaDBVectorMemoryConfig):
    """The configuration of a folder on this machine, used by one process.

    Attributes:
        persistence_path: the folder; it is made when it does not exist.
        lock_patience: seconds to wait while another process has it open, before an error.
        min_free: bytes that have to be free on its disk for anything to be written, else StoreUnavailableError: on a full
            disk Chroma hangs for ever, and may lose what it had taken.
    """

    persistence_path: str | Path = "./chroma_db"
    lock_patience: float = 0.0
    min_free: int = 32 * 2**20


@dataclass(frozen=True, kw_only=True)
class HttpChromaDBVectorMemoryConfig(ChromaDBVectorMemoryConfig):
    """The configuration of a Chroma server, used by any number of processes.

    Attributes:
        host: its name or address.
        port: its port.
        ssl: whether it is https.
        headers: sent with each request, such as a key. Not shown in errors or logs.
    """

    host: str = "localhost"
    port: int = 8000
    ssl: bool = False
    headers: Mapping[str, str] | None = field(default=None, repr=False)

    @classmethod
    def from_url(cls, url: str, **settings: Any) -> Self:
        """The configuration of a server by its URL, such as http://127.0.0.1:8000 or https://chroma.example.

        Args:
            url: With the scheme http or https, and nothing behind the port.
            **settings: Everything else.

        Raises:
            MemoryValueError: The URL is not one of those (a ValueError).
        """
        rule = "http:// or https:// with a host and perhaps a port"
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise setting_error("url", repr(url), rule) from error
        is_plain = not (parts.path.strip("/") or parts.query or parts.username or parts.password)
        if parts.scheme not in ("http", "https") or not parts.hostname or not is_plain:
            raise setting_error("url", repr(_without_secret(url)), rule)
        ssl = parts.scheme == "https"
        return cls(host=parts.hostname, port=port or (443 if ssl else 80), ssl=ssl, **settings)


@dataclass(frozen=True, kw_only=True)
class InMemoryChromaDBVectorMemoryConfig(ChromaDBVectorMemoryConfig):
    """The configuration of a store in this process; gone when the memory is closed. Two memories never share it."""


def _without_secret(url: str) -> str:
    """A URL as it may be shown: the part before an @ may be a password."""
    head, at, tail = url.rpartition("@")
    return f"{head.partition('://')[0]}://...@{tail}" if at else url


def collection_of(namespace: str, agent: str) -> str:
    """The name of the collection of one agent, as Chroma takes it.

    A name with other characters, or one that is too long, gets a digest, so that two agents never share a collection.
    """
    name = f"{namespace}.{agent}"
    if NAME.match(name) and "." not in namespace:
        return name
    cleaned = re.sub(r"[^a-zA-Z0-9._-]", "-", name)[:LONGEST_CLEANED].strip("._-") or "memory"
    exact = f"{namespace}\0{agent}".encode(errors="surrogatepass")
    digest = hashlib.blake2b(exact, digest_size=6).hexdigest()
    return f"{cleaned}-{digest}"
