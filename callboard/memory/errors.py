"""Errors of long-term memory, of messages to language models and of the contexts that hold them.

```
CallboardError
├── LongTermMemoryError
│   ├── MemoryUnusableError    a model, a collection or a document can't be used
│   │   └── MemoryValueError   a setting, content, metadata or a filter can't (ValueError)
│   ├── MemoryFailedError      the store, or the embedding model, refused or failed (RuntimeError)
│   └── StoreUnavailableError  the store can't be reached, or its disk is nearly full: an outage
├── ImageError                 no image that a model could be sent (ValueError)
├── ContextTooSmallError       the newest messages alone do not fit (ValueError)
└── SummaryError               a model gave no summary (ValueError)
```

An outage (`is_outage`) says nothing about the message that was handled: it waits, and uses up no attempt.
"""

from __future__ import annotations

from callboard.foundation import CallboardError


class LongTermMemoryError(CallboardError):
    """Root of what long-term memory raises. Not called MemoryError: Python's own means something else."""


class MemoryUnusableError(LongTermMemoryError):
    """A model, a collection or a document can't be used."""

    template = "{subject} {verdict}: {reason}"
    permanent = True

    subject: str
    verdict: str
    reason: str


class MemoryValueError(MemoryUnusableError, ValueError):
    """A setting, content, metadata or a filter can't be used by a memory or by a model context."""


def setting_error(setting: str, value: str, rule: str) -> MemoryValueError:
    """The error of a setting: its name, its value as text, and what it has to be."""
    return MemoryValueError(f"{setting}={value}", "can't work", f"it must be {rule}")


class MemoryFailedError(LongTermMemoryError, RuntimeError):
    """The store or the embedding model failed, is closed, or is held by another process."""

    template = "{text}"

    text: str


def model_failed(model: str, reason: str) -> MemoryFailedError:
    """The error of an embedding model."""
    return MemoryFailedError(f"the embedding model {model} failed: {reason}")


class StoreUnavailableError(LongTermMemoryError):
    """The store can't be reached, opened or written: an outage, for which messages wait."""

    template = "the memory at {where} {verdict}: {reason}"
    is_outage = True

    where: str  # its address or path
    reason: str
    verdict: str = "can't be reached"


class ImageError(CallboardError, ValueError):
    """A value is not an image that can be sent to a model."""

    template = "this can't be an image: {reason}"
    permanent = True

    reason: str


class ContextTooSmallError(CallboardError, ValueError):
    """The system messages and the newest exchange alone do not fit."""

    template = (
        "the newest messages alone have {excess:,} tokens too many: shorten them, raise token_limit, "
        "or use a model with a larger context"
    )
    permanent = True

    excess: int


class SummaryError(CallboardError, ValueError):
    """A model that should have summarised a conversation answered with calls or with nothing."""

    template = (
        "the model gave no summary of {messages} messages: nothing was replaced; "
        "use a model that answers with text"
    )

    messages: int
