"""Where a context keeps its messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, overload

from callboard.memory.llm_messages import LLMMessage


class Conversation(Protocol):
    """A list of messages, or a `callboard.Log` of them in an agent's state."""

    def append(self, message: LLMMessage, /) -> None: ...

    def extend(self, messages: Iterable[LLMMessage], /) -> None: ...

    def clear(self) -> None: ...

    def pop(self) -> LLMMessage: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[LLMMessage]: ...

    @overload
    def __getitem__(self, index: int, /) -> LLMMessage: ...

    @overload
    def __getitem__(self, index: slice, /) -> list[LLMMessage]: ...
