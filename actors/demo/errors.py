"""Errors of the digest job.

```
ActorError
└── DigestError
    ├── DocumentError(path)          a file or folder that cannot be digested
    │   ├── DocumentMissingError
    │   ├── DocumentKindError        neither .md nor .txt
    │   ├── DocumentUnreadableError(path, reason)  the system refused to open it
    │   ├── DocumentBinaryError
    │   ├── DocumentEmptyError
    │   └── NoDocumentsError(path, skipped)  a folder without any usable file
    ├── StraySubtaskError(key)       feedback for a subtask that this worker does not hold
    └── IncompleteDigestError(missing)
```

The data are plain values kept in ``args``, as in `actors.errors`.
"""

from collections.abc import Sequence

from ..errors import ActorError


class DigestError(ActorError):
    """Root of everything that goes wrong in the digest job."""


class DocumentError(DigestError):
    """A path that cannot be digested.

    Attributes:
        path: The file or folder as it was given.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} cannot be digested."


class DocumentMissingError(DocumentError):
    """There is nothing at the path."""

    def __str__(self) -> str:
        return f"{self.path} does not exist. Give a .md or .txt file, or a folder that holds some."


class DocumentKindError(DocumentError):
    """The path is a file with another ending than .md or .txt, or no file at all."""

    def __str__(self) -> str:
        return (
            f"{self.path} is neither a .md nor a .txt file. Give one of these, or a folder that holds some."
        )


class DocumentUnreadableError(DocumentError):
    """The system refused to open the file or folder.

    Attributes:
        reason: What the system said.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path)
        self.args = (path, reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path} cannot be read ({self.reason}). Check its permissions."


class DocumentBinaryError(DocumentError):
    """The file holds something else than text."""

    def __str__(self) -> str:
        return f"{self.path} is not text (it contains zero bytes). Save it as UTF-8 text first."


class DocumentEmptyError(DocumentError):
    """The file holds nothing but white space."""

    def __str__(self) -> str:
        return f"{self.path} is empty. Give a file with some text in it."


class NoDocumentsError(DocumentError):
    """The folder holds no usable file.

    Attributes:
        skipped: What looked right and was not usable, each as a sentence.
    """

    def __init__(self, path: str, skipped: Sequence[str] = ()) -> None:
        super().__init__(path)
        self.args = (path, tuple(skipped))
        self.skipped = tuple(skipped)

    def __str__(self) -> str:
        tail = f" Passed over: {' '.join(self.skipped[:3])}" if self.skipped else ""
        return f"{self.path} holds no .md or .txt file with text in it.{tail}"


class StraySubtaskError(DigestError):
    """Feedback came for a subtask that this worker does not hold.

    Attributes:
        key: The agent key, "<job>/<number>".
        permanent: True: another attempt would end the same way, so the message is not retried.
    """

    permanent = True

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key

    def __str__(self) -> str:
        return f"Worker {self.key} got feedback and holds no subtask. Publish its Subtask first."


class IncompleteDigestError(DigestError):
    """A digest was asked for before all ten results of one job were there.

    Attributes:
        missing: Numbers of the subtasks whose result is missing.
    """

    def __init__(self, missing: Sequence[int]) -> None:
        super().__init__(tuple(missing))
        self.missing = tuple(missing)

    def __str__(self) -> str:
        return (
            f"A digest needs the results of all ten subtasks; missing: {', '.join(map(str, self.missing))}."
        )
