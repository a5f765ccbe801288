"""Secrets of webhooks: given as texts or by a function, and never shown."""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

from callboard.errors import SettingValueError

Secret: TypeAlias = "str | Sequence[str] | Callable[[], str | Sequence[str]]"  # noqa: S105 - it says what one is
"""A secret; or several, while one takes the place of another; or a function that gives them when they are needed."""

PREFIX: Final = "whsec_"  # of Standard Webhooks
LEAST, MOST = 24, 64  # bytes of such a secret
LEAST_TEXT: Final = 16  # characters of a secret that is a text


class Reading(Protocol):
    """The key that a secret stands for."""

    def __call__(self, secret: str) -> bytes | None:
        """The key; None: it can be no secret."""
        ...


def standard_key(secret: str) -> bytes | None:
    """The key of a secret of Standard Webhooks."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if secret.startswith(PREFIX) and LEAST <= len(key) <= MOST else None


def text_key(secret: str) -> bytes | None:
    """The key of a secret that is used as it is."""
    return secret.encode() if len(secret) >= LEAST_TEXT else None


def keys_of(secret: Secret, reading: Reading, rule: str) -> tuple[bytes, ...]:
    """The keys to sign with, or of which one has signed.

    Args:
        secret: The secret.
        reading: The key that a secret stands for.
        rule: What a secret has to be, for the error.

    Raises:
        SettingValueError: There is none, or it is something else (a ValueError). It does not say what.
    """
    try:
        given = secret() if callable(secret) else secret
    except KeyError:  # a variable that is not set
        given = ()
    keys = [reading(text) for text in ([given] if isinstance(given, str) else given)]
    # guard: a secret that is missing, such as a variable that is not set, lets nobody in
    if not keys or None in keys:
        raise SettingValueError("secret", "(not shown)", rule)
    return tuple(key for key in keys if key is not None)


def new_secret() -> str:
    """A new secret of Standard Webhooks: ``whsec_`` and 32 random bytes in base64."""
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()
