"""What a role remembers: the messages it got and made, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from .message import Message
from .names import any_to_str, any_to_str_set


class Storage(Protocol):
    """Where the messages are: a list, or a log of an agent's state."""

    def append(self, item: Message, /) -> None:
        """Add one at the end."""

    def clear(self) -> None:
        """Remove all."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Message]: ...


class Memory:
    """Messages in the order in which they came, each once.

    Args:
        storage: Where they are kept; a list without.
    """

    def __init__(self, storage: Storage | None = None) -> None:
        self._storage: Storage = [] if storage is None else storage
        self._ids: set[str] = set()

    @property
    def storage(self) -> list[Message]:
        """All of them, as a new list."""
        return list(self._storage)

    def add(self, message: Message) -> None:
        """Add a message; one that is there already stays as it is."""
        ids = self._known()
        if message.id not in ids:
            self._storage.append(message)
            ids.add(message.id)

    def add_batch(self, messages: Iterable[Message]) -> None:
        """Add several."""
        for message in messages:
            self.add(message)

    def get(self, k: int = 0) -> list[Message]:
        """The newest `k`, oldest first; 0: all."""
        found = self.storage
        return found[-k:] if k else found

    def get_by_role(self, role: str) -> list[Message]:
        """Those of "user", "assistant" or "system"."""
        return [message for message in self._storage if message.role == role]

    def get_by_content(self, content: str) -> list[Message]:
        """Those whose content has this in it."""
        return [message for message in self._storage if content in message.content]

    def get_by_action(self, action: Any) -> list[Message]:
        """Those that an action caused: its class, an object of it, or its name."""
        return self.get_by_actions({any_to_str(action)})

    def get_by_actions(self, actions: Iterable[Any]) -> list[Message]:
        """Those that one of several actions caused."""
        causes = any_to_str_set(set(actions))
        return [message for message in self._storage if message.cause_by in causes]

    def find_news(self, observed: Sequence[Message], k: int = 0) -> list[Message]:
        """Those of `observed` that are not among the newest `k`; 0: not in here at all."""
        known = self.get(k)
        return [message for message in observed if message not in known]

    def count(self) -> int:
        """How many there are."""
        return len(self._storage)

    def clear(self) -> None:
        """Forget all."""
        self._storage.clear()
        self._ids.clear()

    def __contains__(self, message: object) -> bool:
        return isinstance(message, Message) and message.id in self._known()

    def __len__(self) -> int:
        return len(self._storage)

    def _known(self) -> set[str]:
        # A handler that failed takes back what it added to the log, behind our back.
        if len(self._ids) != len(self._storage):
            self._ids = {message.id for message in self._storage}
        return self._ids
