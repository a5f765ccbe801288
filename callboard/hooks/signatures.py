"""Signatures of webhooks: by Standard Webhooks, and of those that come in by GitHub's and Stripe's rules as well."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias

from .errors import WebhookSignatureError
from .secrets import LEAST, LEAST_TEXT, MOST, PREFIX, Reading, standard_key, text_key

SchemeName: TypeAlias = Literal["standard", "github", "stripe"]

OLDEST: Final = 300  # seconds between the two clocks, on the way, and until it is replayed
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
GITHUB_ID, GITHUB_EVENT, GITHUB_SIGNATURE = "x-github-delivery", "x-github-event", "x-hub-signature-256"
STRIPE_SIGNATURE: Final = "stripe-signature"
MOST_ID: Final = 255  # characters
MOST_DIGITS: Final = 12  # of a time

STANDARD_RULE: Final = (
    f"{PREFIX} and {LEAST} to {MOST} bytes in base64; callboard.hooks.new_secret() makes one"
)
TEXT_RULE: Final = f"a text of {LEAST_TEXT} characters or more"


def signed(keys: Iterable[bytes], webhook_id: str, at: int, body: bytes) -> dict[str, str]:
    """The headers of a webhook that leaves.

    Args:
        keys: Each of them signs.
        webhook_id: The same in every attempt.
        at: When this attempt is made, in Unix time.
        body: What is sent.
    """
    content = f"{webhook_id}.{at}.".encode() + body
    signatures = " ".join(f"v1,{_base64(key, content)}" for key in keys)
    return {ID: webhook_id, TIMESTAMP: str(at), SIGNATURE: signatures}


def _base64(key: bytes, content: bytes) -> str:
    return base64.b64encode(hmac.digest(key, content, sha256)).decode()


def _hex(key: bytes, content: bytes) -> str:
    return hmac.digest(key, content, sha256).hex()


@dataclass(frozen=True, slots=True)
class Scheme:
    """A way to sign what comes in.

    Attributes:
        headers: What it needs, in small letters.
        reading: The key that a secret stands for.
        rule: What a secret has to be.
        check: Returns the id of one that one of the keys has signed; raises WebhookSignatureError otherwise.
        kind: Says of headers and body what has happened, such as "push"; "": nothing does.
    """

    headers: tuple[str, ...]
    reading: Reading
    rule: str
    check: Callable[[Mapping[str, str], bytes, Sequence[bytes], float], str]
    kind: Callable[[Mapping[str, str], Any], str]


def _check_standard(headers: Mapping[str, str], body: bytes, keys: Sequence[bytes], now: float) -> str:
    webhook_id, at = _header(headers, ID), _header(headers, TIMESTAMP)
    given = [
        text.removeprefix("v1,") for text in _header(headers, SIGNATURE).split(" ") if text.startswith("v1,")
    ]
    content = f"{webhook_id}.{at}.".encode() + body
    _check_signed(given, [_base64(key, content) for key in keys])
    _check_recent(at, now)
    return webhook_id


def _check_github(headers: Mapping[str, str], body: bytes, keys: Sequence[bytes], now: float) -> str:
    given = _header(headers, GITHUB_SIGNATURE).removeprefix("sha256=")
    _check_signed([given], [_hex(key, body) for key in keys])
    return _header(headers, GITHUB_ID)


def _check_stripe(headers: Mapping[str, str], body: bytes, keys: Sequence[bytes], now: float) -> str:
    parts = [part.strip().partition("=") for part in _header(headers, STRIPE_SIGNATURE).split(",")]
    times = [value for name, _, value in parts if name == "t"]
    if len(times) != 1:
        raise WebhookSignatureError(f"{STRIPE_SIGNATURE} has no time, or two")
    content = f"{times[0]}.".encode() + body
    given = [value for name, _, value in parts if name == "v1"]
    _check_signed(given, [_hex(key, content) for key in keys])
    _check_recent(times[0], now)
    try:
        webhook_id = json.loads(body)["id"]
    except (ValueError, KeyError, TypeError, RecursionError):
        webhook_id = ""
    if not isinstance(webhook_id, str) or not 0 < len(webhook_id) <= MOST_ID:
        raise WebhookSignatureError("its body has no id")
    return webhook_id


def _header(headers: Mapping[str, str], name: str) -> str:
    found = headers.get(name, "")
    if not found:
        raise WebhookSignatureError(f"it has no header {name}")
    if name in (ID, GITHUB_ID) and len(found) > MOST_ID:
        raise WebhookSignatureError(f"{name} has {MOST_ID} characters at most")
    return found


def _check_signed(given: Iterable[str], right: Sequence[str]) -> None:
    """Refuse what none of the keys has signed; how long it takes says nothing about how much of it was right."""
    pairs = [(one.encode(), other.encode()) for one in given for other in right]
    # guard: only what was signed with the secret comes in
    if not any(hmac.compare_digest(one, other) for one, other in pairs):
        raise WebhookSignatureError("its signature is not the one of this body and the secret")


def _check_recent(at: str, now: float) -> None:
    """Refuse what was sent long ago: ids are remembered for a day only, so it would come in once more after that."""
    if not at.isascii() or not at.isdecimal() or len(at) > MOST_DIGITS:
        raise WebhookSignatureError("its time is no Unix time in seconds")
    # guard: what somebody has kept does not come in later
    if abs(now - int(at)) > OLDEST:
        raise WebhookSignatureError(
            f"it was sent more than {OLDEST} seconds ago, or its sender's clock is wrong"
        )


def _kind_by_type(headers: Mapping[str, str], found: Any) -> str:
    kind = found.get("type") if isinstance(found, dict) else ""
    return kind if isinstance(kind, str) else ""


def _kind_by_header(headers: Mapping[str, str], found: Any) -> str:
    return headers.get(GITHUB_EVENT, "")


SCHEMES: Final[Mapping[SchemeName, Scheme]] = {
    "standard": Scheme(
        (ID, TIMESTAMP, SIGNATURE), standard_key, STANDARD_RULE, _check_standard, _kind_by_type
    ),
    "github": Scheme(
        (GITHUB_ID, GITHUB_EVENT, GITHUB_SIGNATURE), text_key, TEXT_RULE, _check_github, _kind_by_header
    ),
    "stripe": Scheme((STRIPE_SIGNATURE,), text_key, TEXT_RULE, _check_stripe, _kind_by_type),
}
"""The schemes, by name."""
