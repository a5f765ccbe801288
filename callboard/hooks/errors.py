"""Errors of webhooks. None of them holds an address beyond its host, or a body: both may hold secrets."""

from __future__ import annotations

from callboard.foundation import ActorError


class WebhookError(ActorError):
    """The root of what goes wrong with webhooks."""


class WebhookFailedError(WebhookError):
    """A receiver has not taken a webhook; it is tried again as the policy says."""

    template = "The webhook {name!r} was not taken by {host}: {reason}"

    name: str
    host: str
    reason: str
    retry_after: float = 0.0


class WebhookGoneError(WebhookError):
    """A receiver wants no more webhooks (410); this one is not tried again."""

    template = (
        "The webhook {name!r} is not wanted any more: {host} answered 410 Gone. Take it out of the app; "
        "its dead letters can be replayed where that is wrong."
    )
    permanent = True

    name: str
    host: str


class WebhookAddressError(WebhookError, ValueError):
    """A webhook leads to a private address, which nobody has allowed; it is not tried again."""

    template = (
        "The webhook {name!r} was not sent: {host} is a private address, or has one. "
        "Where that is meant, declare it with allow_private=True and replay its dead letters."
    )
    permanent = True

    name: str
    host: str


class WebhookSignatureError(WebhookError, PermissionError):
    """What came in is not signed as it has to be, or too old."""

    template = "The webhook is refused: {reason}."

    reason: str
