"""What one request to a client uses, over everything that is asked of the server for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from callboard.models.charges import charge
from callboard.models.errors import ModelConnectionError, ModelError, ModelTimeoutError
from callboard.models.types import RequestUsage

from .answer import NOTHING_USED, Answer, charged_in, whole_answer
from .stream import Assembler
from .tokens import Tokenizer, count_request, count_text

# Errors of the HTTP client before there is a connection, by name: the client may be one of two packages.
NEVER_SENT: Final = frozenset(
    {"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol"}
)


class Tally:
    """Adds up tokens: as the server counts them, and by an estimate where it was asked and its answer never came.

    Args:
        tokenizer: makes estimates exact; None: there is none.

    Attributes:
        used: all so far.
    """

    def __init__(self, tokenizer: Tokenizer | None) -> None:
        self.used = NOTHING_USED
        self._tokenizer = tokenizer

    def add(self, answer: Answer) -> None:
        """Count an answer, whatever becomes of it."""
        self.used += answer.usage

    def read(self, body: bytes) -> Answer | None:
        """The answer in a body, counted also when it can't be read; see `whole_answer`."""
        self.used += charged_in(body)
        return whole_answer(body)

    @contextmanager
    def asking(self, arguments: Mapping[str, Any]) -> Iterator[None]:
        """Wait for an answer. A server that was left before all of it came has read the prompt, and may charge it."""
        try:
            yield
        except (asyncio.CancelledError, ModelTimeoutError, ModelConnectionError) as error:
            if not _was_never_sent(error):
                self.used += RequestUsage(self._prompt(arguments["messages"]), 0)
            raise

    def add_unfinished(self, assembler: Assembler, arguments: Mapping[str, Any]) -> None:
        """Count a stream that did not come to its end; nothing of it if nothing came."""
        usage = assembler.usage
        if usage == NOTHING_USED and assembler.has_begun:
            written = count_text(assembler.everything, self._tokenizer)
            usage = RequestUsage(self._prompt(arguments["messages"]), written)
        self.used += usage

    def charge(self, error: BaseException) -> None:
        """Say in an error what the request used."""
        if isinstance(error, ModelError | asyncio.CancelledError):
            charge(error, self.used)

    def _prompt(self, messages: Sequence[Mapping[str, Any]]) -> int:
        return count_request(messages, (), self._tokenizer)


def _was_never_sent(error: BaseException) -> bool:
    """Whether the server got nothing of the request. The error comes from the openai package's, and that from HTTP's."""
    cause = None if error.__cause__ is None else error.__cause__.__cause__
    return type(cause).__name__ in NEVER_SENT
