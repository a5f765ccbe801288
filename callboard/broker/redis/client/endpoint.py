"""Where the server is: a URL, taken apart and checked."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlencode, urlsplit

from callboard.broker.errors import bad_url

SCHEMES = ("redis", "rediss", "unix", "memory")
WATCHED = {"redis+sentinel": "redis", "rediss+sentinel": "rediss"}
"""Schemes of servers that sentinels watch, and how such a server is connected to."""
PLANNED = ("redis+cluster",)
DEFAULT_PORT = 6379
SENTINEL_PORT = 26379
SPECIAL = "in a user name or password write # as %23, / as %2F and ? as %3F"

Argument = bytes | str | int | float
"""A part of a command."""


class Address(NamedTuple):
    """Where one process listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Watched:
    """Sentinels (https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/) and the primary that they watch.

    Attributes:
        name: what the sentinels call the primary.
        sentinels: any of them may be asked where it is.
        username, password: of the sentinels, where they want any.
    """

    name: str
    sentinels: tuple[Address, ...]
    username: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One server. `shown` is the URL without its password, for messages and logs.

    Attributes:
        watched: where the server is has to be asked for, before each connection; host and port say nothing then.
    """

    scheme: str
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    path: str = ""
    database: int = 0
    username: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""
    check_certificate: bool = True
    watched: Watched | None = None

    @classmethod
    def parse(cls, url: str) -> Endpoint:
        """Reads `redis://[user:password@]host[:port][/db]`, `rediss://...`, `unix:///path[?db=0]`, `memory://name`.

        And of a server that sentinels watch `redis+sentinel://[user:password@]host[:port],host[:port].../name[/db]`, with
        `?sentinel_username=` and `sentinel_password=` where the sentinels want a login of their own.

        Raises:
            SettingsError: the scheme, port or database is not one of these.
        """
        parts, authority = _split(url)
        if parts.scheme in PLANNED:
            raise bad_url(
                url, f"{parts.scheme}:// is not supported yet; give the address of the server itself"
            )
        if parts.scheme not in (*SCHEMES, *WATCHED) or "://" not in url:
            raise bad_url(
                url, "it has to begin with redis://, rediss://, redis+sentinel://, unix:// or memory://"
            )
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        login, _, listed = authority.rpartition("@")
        username, _, password = login.partition(":")
        endpoint = cls(
            scheme=WATCHED.get(parts.scheme, parts.scheme),
            username=unquote(username),
            password=unquote(password),
            ca_file=query.get("ssl_ca_certs", ""),
            check_certificate=query.get("ssl_cert_reqs", "required") != "none",
        )
        if parts.scheme in WATCHED:
            return endpoint._behind_sentinels(url, parts, listed, query)
        return endpoint._at_address(url, parts.path, listed, query)

    def _at_address(self, url: str, path: str, listed: str, query: Mapping[str, str]) -> Endpoint:
        if self.scheme == "unix":
            if not path or listed:
                raise bad_url(url, "unix:// needs the path of a socket, such as unix:///run/redis.sock")
            return replace(self, path=unquote(path), database=_database(url, query.get("db", "")))
        host, port = _address(url, listed, DEFAULT_PORT)
        database = _database(url, path.strip("/"))
        return replace(
            self,
            host=host or "127.0.0.1",
            port=port,
            database=0 if self.scheme == "memory" else database,
        )

    def _behind_sentinels(
        self, url: str, parts: SplitResult, listed: str, query: Mapping[str, str]
    ) -> Endpoint:
        if parts.fragment:
            raise bad_url(url, SPECIAL)
        name, _, database = parts.path.strip("/").partition("/")
        # One that is named twice has one vote.
        addresses = tuple(
            dict.fromkeys(_address(url, each.strip(), SENTINEL_PORT) for each in listed.split(","))
        )
        if not name or not all(address.host for address in addresses):
            raise bad_url(
                url,
                "it needs the addresses of sentinels and what they call the primary, such as "
                "redis+sentinel://10.0.0.1:26379,10.0.0.2:26379,10.0.0.3:26379/mymaster",
            )
        watched = Watched(
            unquote(name), addresses, query.get("sentinel_username", ""), query.get("sentinel_password", "")
        )
        return replace(self, host="", port=0, database=_database(url, database), watched=watched)

    @property
    def shown(self) -> str:
        if self.watched is not None:
            listed = ",".join(map(str, self.watched.sentinels))
            return f"{self.scheme}+sentinel://{listed}/{quote(self.watched.name, safe='')}/{self.database}"
        if self.scheme == "unix":
            return f"unix://{self.path}"
        return f"{self.scheme}://{Address(self.host, self.port)}/{self.database}"

    @property
    def to_type(self) -> str:
        """The URL as a person types it: with PASSWORD in place of each password."""
        login = f"{quote(self.username, safe='')}:PASSWORD@" if self.password else ""
        options = {"ssl_ca_certs": self.ca_file, "ssl_cert_reqs": "" if self.check_certificate else "none"}
        address = self.shown.partition("://")[2]
        if self.scheme == "unix":
            address, options = quote(self.path), {"db": str(self.database or "")}
        if self.watched is not None:
            options["sentinel_username"] = self.watched.username
            options["sentinel_password"] = "PASSWORD" if self.watched.password else ""
        query = urlencode({name: value for name, value in options.items() if value})
        return f"{self.shown.partition('://')[0]}://{login}{address}{'?' if query else ''}{query}"

    def at(self, address: Address) -> Endpoint:
        """The server at this address, which sentinels have named."""
        return replace(self, host=address.host, port=address.port, watched=None)

    def ssl_context(self) -> ssl.SSLContext | None:
        if self.scheme != "rediss":
            return None
        context = ssl.create_default_context(cafile=self.ca_file or None)
        if not self.check_certificate:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def greeting(self, name: str) -> list[tuple[str, ...]]:
        """The commands that a new connection starts with."""
        commands: list[tuple[str, ...]] = []
        if self.password:
            commands.append(
                ("AUTH", self.username, self.password) if self.username else ("AUTH", self.password)
            )
        if self.database:
            commands.append(("SELECT", str(self.database)))
        commands.append(("CLIENT", "SETNAME", name.replace(" ", "_")))
        return commands


def _split(url: str) -> tuple[SplitResult, str]:
    """The parts of a URL without what is between scheme and path, and that.

    `urlsplit` takes no list of addresses in brackets, and where it does not like a password it puts it into its error.
    """
    scheme, separator, rest = url.partition("://")
    path = min((at for at in map(rest.find, "/?#") if at >= 0), default=len(rest))
    return urlsplit(f"{scheme}{separator}{rest[path:]}"), rest[:path]


def _address(url: str, text: str, default_port: int) -> Address:
    try:
        parts = urlsplit(f"//{text}")
    except ValueError:
        raise bad_url(url, f"an IPv6 address has to be written in brackets; {SPECIAL}") from None
    try:
        port = parts.port
    except ValueError:
        # Not the text of that error: it quotes what it takes for the port, which may be part of a password.
        raise bad_url(url, f"its port is not a number from 0 to 65535; {SPECIAL}") from None
    return Address(parts.hostname or "", port or default_port)


def _database(url: str, text: str) -> int:
    try:
        number = int(text or 0)
    except ValueError as error:
        raise bad_url(url, "what follows the host has to be the number of a database") from error
    if number < 0:
        raise bad_url(url, "the number of a database is not less than 0")
    return number
