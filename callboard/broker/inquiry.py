"""Questions of handlers as the server keeps them: what is asked, of whom, and what came of it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class InputStatus(StrEnum):
    """What came of a question; all but the first are for good."""

    OPEN = "open"
    ANSWERED = "answered"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


class Inquiry(NamedTuple):
    """What a handler asks, as it is written.

    Attributes:
        id: of the question, the same in every attempt at the message.
        name: tells it apart from others of the same handler.
        timeout: milliseconds until it expires; None: never.
        fields: what is kept to be shown and checked, as text: `key` (of the agent), `question`, `schema`, `default`, ...
    """

    id: str
    name: str
    timeout: int | None
    fields: dict[str, str]


class Asked(NamedTuple):
    """What is known of a question that was asked.

    Attributes:
        status: what came of it.
        answer: JSON; "" without one.
        expires: when it expires, server ms; None: never.
        default: JSON of what is taken when it expires; "" for none.
    """

    status: InputStatus
    answer: str
    expires: int | None
    default: str
