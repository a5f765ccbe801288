"""Identities of those who come through a door: what they may, whose tenant they are, and the tokens that say it."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import tomllib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from callboard.errors import SettingValueError
from callboard.runs.outside import TENANT, door_id as door_id, inside, outside  # noqa: PLC0414 - public here

if TYPE_CHECKING:
    from starlette.requests import Request

SCOPES: Final = frozenset({"read", "run", "answer"})
"""What may be done: look at runs; begin, pause and cancel them; answer questions."""

OPERATE: Final = "operate"
"""What has to be said: look at all of a namespace, pause what works there, and send dead letters again."""

DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Someone who comes through a door.

    Attributes:
        name: Who answers, as others see it.
        scopes: What they may do: "read", "run", "answer"; "operate", which the dashboard asks for.
        services: The services that are there for them; None: all that are served.
        tenant: Letters, digits, ``_`` and ``-``. Conversations and runs of other tenants are not found. "": the house
            itself, to which all of them belong.

    Raises:
        SettingValueError: One of them can't be (a ValueError).
    """

    name: str
    scopes: frozenset[str] = SCOPES
    services: frozenset[str] | None = None
    tenant: str = ""

    def __post_init__(self) -> None:
        """Refuse what would let someone in by a slip of the pen."""
        if not self.name:
            raise SettingValueError("name", repr(self.name), "a text that is not empty")
        unknown = set(self.scopes) - SCOPES - {OPERATE}
        if unknown:
            raise SettingValueError(
                "scopes", repr(min(unknown)), f"some of {', '.join(sorted({*SCOPES, OPERATE}))}"
            )
        if self.tenant and not TENANT.fullmatch(self.tenant):
            raise SettingValueError(
                "tenant", repr(self.tenant), "1 to 40 letters, digits, '_' and '-', or nothing"
            )

    def inside(self, conversation: str) -> str:
        """The conversation as it is kept. Each name of a request goes through this, so that none leaves its tenant."""
        return inside(self.tenant, conversation)

    def outside(self, kept: str) -> str | None:
        """The conversation as this one names it; None: it is of another tenant."""
        return outside(self.tenant, kept)

    def sees(self, service: str) -> bool:
        """Whether a service is there for this one."""
        return self.services is None or service in self.services


class Tokens:
    """Identities by token. Only hashes of tokens are known here.

    Args:
        known: SHA-256 of a token, in hex, and whose it is.
    """

    def __init__(self, known: Iterable[tuple[str, Identity]]) -> None:
        self._known = [(bytes.fromhex(digest), identity) for digest, identity in known]

    @classmethod
    def read(cls, path: Path) -> Self:
        """The tokens of a TOML file: a table for each, with the name of who has it.

        ```toml
        [ada]
        sha256 = "9f86d081..."
        scopes = ["read", "run", "answer"]
        tenant = "acme"
        services = ["desk"]
        ```

        Raises:
            SettingValueError: The file says something else (a ValueError).
        """
        try:
            tables: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise SettingValueError(
                "tokens", repr(str(path)), f"a TOML file that can be read: {error}"
            ) from None
        return cls([_token_of(name, table) for name, table in tables.items()])

    def identity_of(self, token: str) -> Identity | None:
        """Whose token it is; None: nobody's."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        found = [identity for known, identity in self._known if hmac.compare_digest(known, digest)]
        return found[0] if found else None


def _token_of(name: str, table: object) -> tuple[str, Identity]:
    rule = "a table with sha256, and perhaps scopes, services and tenant"
    if not isinstance(table, dict) or table.keys() - {"sha256", "scopes", "services", "tenant"}:
        raise SettingValueError("tokens", repr(name), rule)
    given: dict[str, Any] = table
    digest, tenant = given.get("sha256"), given.get("tenant", "")
    scopes, services = given.get("scopes", sorted(SCOPES)), given.get("services")
    lists = [scopes] if services is None else [scopes, services]
    texts = [one for some in lists if isinstance(some, list) for one in some]
    if not isinstance(digest, str) or not DIGEST.fullmatch(digest) or not isinstance(tenant, str):
        raise SettingValueError("tokens", repr(name), f"{rule}; sha256 has 64 small hexadecimal digits")
    if not all(isinstance(one, list) for one in lists) or not all(isinstance(one, str) for one in texts):
        raise SettingValueError("tokens", repr(name), f"{rule}; scopes and services are lists of texts")
    identity = Identity(
        name=name,
        scopes=frozenset(scopes),
        services=None if services is None else frozenset(services),
        tenant=tenant,
    )
    return digest, identity


def new_token(name: str) -> tuple[str, str]:
    """A new token, and the lines for it in the file of tokens."""
    token = f"cb_{secrets.token_urlsafe(32)}"
    digest = hashlib.sha256(token.encode()).hexdigest()
    lines = f'[{name}]\nsha256 = "{digest}"\nscopes = ["answer", "read", "run"]\n'
    return token, lines


Access: TypeAlias = "Tokens | Identity | Callable[[Request], Identity | Awaitable[Identity | None] | None]"
"""Who comes in: those with a token; all, as one identity; or whom a function of the request names, as a login does."""


@dataclass(frozen=True, slots=True)
class DoorOptions:
    """Rules of a door; see `asgi`."""

    access: Access
    hosts: frozenset[str] | None
    origins: frozenset[str]
    serve_all: bool
    max_body: int
    max_streams: int
