"""What stays out of dumps: secrets by their type, by the name of what holds them, and passwords in addresses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, Secret, SecretBytes, SecretStr

# Words in the names of headers, variables and options whose values are secrets.
SECRET_WORDS: Final = frozenset(
    [
        "auth",
        "authorization",
        "bearer",
        "cookie",
        "cookies",
        "credential",
        "credentials",
        "jwt",
        "key",
        "pass",
        "passphrase",
        "pat",
        "pwd",
        "secret",
        "secrets",
        "session",
        "sessionid",
        "sig",
        "signature",
        "token",
    ]
)
SECRET_ENDS: Final = ("apikey", "accesskey", "cookie", "passwd", "password", "secret", "secretkey", "token")
WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# With ssh it is a name, such as git, and no secret.
USER_IN_ADDRESS: Final = re.compile(r"(?<!ssh://)(?<=://)[^\s/@]+@")
IN_QUERY: Final = re.compile(r"(?<=[?&])([\w.~-]+)=[^&\s#]+")
MASK: Final = "*" * 10  # what pydantic writes into JSON for a secret, so what a dump of AutoGen has


def plain_data(config: BaseModel) -> dict[str, Any]:
    """A config as JSON has it, without what is None, without secrets, and without users and passwords in addresses."""
    typed = config.model_dump(exclude_none=True)
    plain: dict[str, Any] = _without_secrets(typed, config.model_dump(mode="json", exclude_none=True))
    return plain


def harmless(named: Mapping[str, str] | None) -> dict[str, str] | None:
    """Headers without those that are secrets by their names; None: none are left."""
    return {name: value for name, value in (named or {}).items() if not is_secret_name(name)} or None


def is_secret_name(name: str) -> bool:
    """Whether what has this name is a secret: "Authorization", "X-Api-Key", "--token"; not "max_tokens" or "keyword"."""
    words = [word.lower() for word in WORDS.findall(name)]
    return any(word in SECRET_WORDS or word.endswith(SECRET_ENDS) for word in words)


def revealed(secret: SecretStr | None) -> str | None:
    """A secret of a config; None: there is none, or only the mask of one."""
    value = secret.get_secret_value() if secret else None
    return None if value == MASK else value or None


def _without_secrets(typed: Any, plain: Any) -> Any:
    """The plain form without the secrets, which only the typed form tells."""
    if isinstance(plain, str):
        return _without_keys(plain) if _is_address(plain) else plain
    if isinstance(plain, dict):
        # A value with a serializer of its own may have another shape.
        values: list[Any] = (
            list(typed.values())
            if isinstance(typed, dict) and len(typed) == len(plain)
            else [None] * len(plain)
        )
        pairs = zip(plain.items(), values, strict=True)
        return {key: _without_secrets(value, one) for (key, one), value in pairs if not _is_secret(value)}
    if isinstance(plain, list):
        has_shape = isinstance(typed, list | tuple | set | frozenset) and len(typed) == len(plain)
        items: list[Any] = list(typed) if has_shape else [None] * len(plain)
        both = zip(items, plain, strict=True)
        return [_without_secrets(value, one) for value, one in both if not _is_secret(value)]
    return plain


def _without_keys(text: str) -> str:
    """An address, or a text that holds some, without users, passwords and keys."""
    return IN_QUERY.sub(
        lambda pair: f"{pair[1]}=" if is_secret_name(pair[1]) else pair[0], USER_IN_ADDRESS.sub("", text)
    )


def _is_address(text: str) -> bool:
    return "://" in text or text.startswith("/")


def _is_secret(value: object) -> bool:
    return isinstance(value, SecretStr | SecretBytes | Secret)
