"""Exit codes, and errors as one sentence."""

from __future__ import annotations

import sys
from typing import NoReturn

from ..errors import ActorError

FAILED = 1
BAD_USE = 2
UNREACHABLE = 3
TIMED_OUT = 4
INTERRUPTED = 130
BROKEN_PIPE = 141


class CommandFailed(ActorError):
    """A command can't go on.

    Attributes:
        sentence: What is wrong and what to do.
        code: The exit code.
    """

    def __init__(self, sentence: str, code: int = FAILED) -> None:
        super().__init__(sentence, code)
        self.sentence = sentence
        self.code = code

    def __str__(self) -> str:
        return self.sentence


def bad_use(sentence: str) -> NoReturn:
    """Ends the command: it can't be what was meant."""
    raise CommandFailed(sentence, BAD_USE)


def code_of(error: BaseException) -> int:
    """The exit code for an error."""
    from broker.errors import (
        BadUrlError,
        InvalidIdError,
        RequestTimeoutError,
        ServerNotFoundError,
        ServerUnavailableError,
        SettingsError,
    )
    from broker.redis.server import ServerUnsupportedError
    from broker.redis.server_state import ServerStartError
    from memory.errors import FilterError, MemorySettingError, StoreUnavailableError

    from ..errors import DeclarationError
    from ..loading import LoadingError

    if isinstance(error, CommandFailed):
        return error.code
    if isinstance(
        error,
        ServerUnavailableError
        | ServerNotFoundError
        | ServerStartError
        | ServerUnsupportedError
        | StoreUnavailableError,
    ):
        return UNREACHABLE
    if isinstance(error, RequestTimeoutError):
        return TIMED_OUT
    if isinstance(
        error,
        BadUrlError
        | InvalidIdError
        | SettingsError
        | LoadingError
        | DeclarationError
        | MemorySettingError
        | FilterError,
    ):
        return BAD_USE
    return FAILED


def sentence_of(error: BaseException) -> str:
    """What went wrong, for people: our own errors as they are, others with their class."""
    from broker.errors import BrokerError
    from memory.errors import LongTermMemoryError

    if isinstance(error, ActorError | BrokerError | LongTermMemoryError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return f"unexpected {type(error).__name__}: {error} (--debug shows where)"


def complain(text: str) -> None:
    """One line on stderr."""
    print(f"callboard: {' '.join(text.split())}", file=sys.stderr, flush=True)
