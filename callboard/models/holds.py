"""Names of holds: a hold that a worker left behind does not stand in the way of the message that it was made for."""

from __future__ import annotations

import hashlib
import os
from typing import Final

from callboard.runtime.execution import current

DIGITS: Final = 16  # of the hash of a message, and of a worker


def new_hold_id() -> str:
    """A name for a hold: `<message>@<worker>/<number>` in a handler, so that `is_replaced` knows; else any number."""
    execution, number = current.get(), os.urandom(8).hex()
    if execution is None or execution.is_over or execution.receipt is None:
        return number
    message = _hash(f"{execution.agent_id}\0{execution.envelope.id}")
    return f"{message}@{_hash(execution.receipt.fence.worker)}/{number}"


def is_replaced(other: str, mine: str) -> bool:
    """Whether another hold is of the same message as mine, and of a worker that has lost it since."""
    (its_message, its_worker), (message, worker) = _parts(other), _parts(mine)
    return bool(message) and its_message == message and its_worker != worker


def _parts(hold_id: str) -> tuple[str, str]:
    message, found, rest = hold_id.partition("@")
    return (message, rest.partition("/")[0]) if found else ("", "")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]
