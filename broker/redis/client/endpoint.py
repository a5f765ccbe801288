"""Where the server is: a URL, taken apart and checked."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

from callboard.broker.errors import BadUrlError

SCHEMES = ("redis", "rediss", "unix", "memory")
PLANNED = ("redis+sentinel", "redis+cluster")
DEFAULT_PORT = 6379

Argument = bytes | str | int | float
"""A part of a command."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One server. `shown` is the URL without its password, for messages and logs."""

    scheme: str
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    path: str = ""
    database: int = 0
    username: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""
    check_certificate: bool = True

    @classmethod
    def parse(cls, url: str) -> Endpoint:
        """Reads `redis://[user:password@]host[:port][/db]`, `rediss://...`, `unix:///path[?db=0]`, `memory://name`.

        Raises:
            BadUrlError: the scheme, port or database is not one of these.
        """
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise BadUrlError(url, str(error)) from error
        try:
            port = parts.port
        except ValueError:
            # Not the text of that error: it quotes what it takes for the port, which may be part of a password.
            raise BadUrlError(
                url,
                "its port is not a number from 0 to 65535; in a user name or password write # as %23, / as %2F and ? as %3F",
            ) from None
        if parts.scheme in PLANNED:
            raise BadUrlError(
                url, f"{parts.scheme}:// is not supported yet; give the address of the server itself"
            )
        if parts.scheme not in SCHEMES or "://" not in url:
            raise BadUrlError(url, "it has to begin with redis://, rediss://, unix:// or memory://")
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        path = parts.path
        try:
            database = int(query.get("db", 0) if parts.scheme == "unix" else path.strip("/") or 0)
        except ValueError as error:
            raise BadUrlError(url, "what follows the host has to be the number of a database") from error
        if database < 0:
            raise BadUrlError(url, "the number of a database is not less than 0")
        if parts.scheme == "unix" and (not path or parts.hostname):
            raise BadUrlError(url, "unix:// needs the path of a socket, such as unix:///run/redis.sock")
        return cls(
            scheme=parts.scheme,
            host=parts.hostname or "127.0.0.1",
            port=port or DEFAULT_PORT,
            path=unquote(path) if parts.scheme == "unix" else "",
            database=0 if parts.scheme == "memory" else database,
            username=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            ca_file=query.get("ssl_ca_certs", ""),
            check_certificate=query.get("ssl_cert_reqs", "required") != "none",
        )

    @property
    def shown(self) -> str:
        if self.scheme == "unix":
            return f"unix://{self.path}"
        return f"{self.scheme}://{self.host}:{self.port}/{self.database}"

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
