"""The part of an agent's state that grows: a list to which commits append, and which is never written again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args, overload

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

T = TypeVar("T")


class Savepoint(NamedTuple):
    """What a log held at one moment of a handler."""

    items: list[Any]
    gone: list[Any]
    committed: int


class Log(Sequence[T]):
    """A list that grows: a field of an agent's `State` of which a commit writes only what is new.

    ```python
    class Chat(RoutedAgent):
        class State(BaseModel):
            title: str = ""
            thread: Log[LLMMessage] = Log()
    ```

    The other fields of a `State` are written as a whole whenever one of them changed. A log is a Redis list of its own: what
    was appended since the last commit is appended there, together with everything else that handling the message did, and
    what was trimmed is removed. So a message costs the same after 2,000 turns as after 20. All of it is read once, when the
    agent wakes up, and then lives in memory as long as the agent does.

    Items are of any type that pydantic reads and writes as JSON. They are written once: a change inside an item that was
    committed is not stored, and not undone when a handler fails. Frozen models are best.

    A log is one only as a field of `State` itself. Further inside, such as in a model that `State` holds, it is an
    ordinary list.

    Args:
        items: what it begins with.
    """

    __slots__ = ("_committed", "_gone", "_is_stored", "_items")
    __hash__ = None  # type: ignore[assignment]  # it changes; so pydantic copies it where it is a default, too

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._items: list[T] = list(items)
        # Of these, the first `_committed` are the rest of what the last commit left; `_gone` are those before them.
        self._committed = 0
        self._gone: list[T] = []
        self._is_stored = False

    # What handlers use

    def append(self, item: T) -> None:
        """Add an item at the end."""
        self._items.append(item)

    def extend(self, items: Iterable[T]) -> None:
        """Add items at the end."""
        self._items += list(items)  # as a list first: it may be this log itself

    def clear(self) -> None:
        """Remove every item."""
        self.trim(keep=0)

    def pop(self) -> T:
        """Take back the newest item, which no commit holds yet.

        Raises:
            IndexError: A commit holds it, or there is none: a log loses old items only, see `trim`.
        """
        if len(self._items) == self._committed:
            raise IndexError("there is no item that was appended since the last commit.")
        return self._items.pop()

    def trim(self, *, keep: int) -> None:
        """Remove the oldest items.

        Args:
            keep: How many of the newest stay; with no more than that nothing happens.

        Raises:
            ValueError: It is negative.
        """
        if keep < 0:
            raise ValueError("keep has to be 0 or more: how many of the newest items stay.")
        count = max(0, len(self._items) - keep)
        committed = min(count, self._committed)
        self._gone += self._items[:committed]
        self._committed -= committed
        del self._items[:count]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index: int | slice) -> T | list[T]:
        return self._items[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Log):
            return self._items == other._items
        return self._items == other if isinstance(other, list) else NotImplemented

    def __repr__(self) -> str:
        return f"Log({self._items!r})"

    def __copy__(self) -> Log[T]:
        return Log(self._items)

    def __deepcopy__(self, memo: dict[int, Any]) -> Log[T]:
        return Log(deepcopy(self._items, memo))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        items = handler.generate_schema(list.__class_getitem__(get_args(source) or (Any,)))
        read = core_schema.no_info_after_validator_function(cls, items)
        return core_schema.json_or_python_schema(
            json_schema=read,
            python_schema=core_schema.union_schema([core_schema.is_instance_schema(cls), read]),
            serialization=core_schema.plain_serializer_function_ser_schema(list, return_schema=items),
        )

    # What state.py uses: the items as the last commit left them, and what was done to them since

    @property
    def is_stored(self) -> bool:
        """Whether the server has it; else it holds what the agent began with, or what another kind of field held."""
        return self._is_stored

    @property
    def stored_count(self) -> int:
        """How many items the server has."""
        return len(self._gone) + self._committed if self._is_stored else 0

    @property
    def dropped(self) -> int:
        """How many of those are to be removed, the oldest of them."""
        return len(self._gone) if self._is_stored else 0

    @property
    def appended(self) -> list[T]:
        """The items that the server does not have yet."""
        return self._items[self._committed :] if self._is_stored else self._items

    @property
    def has_changed(self) -> bool:
        """Whether something was done to it since the last commit."""
        return bool(self._gone) or len(self._items) > self._committed

    @property
    def is_unsaved(self) -> bool:
        """Whether the server has not all of it, once something of the state is written."""
        # Each commit asks this of each log, so it asks no other property.
        count = len(self._items)
        return count > self._committed or bool(self._gone) or (count > 0 and not self._is_stored)

    def fill(self, items: Iterable[T], *, is_stored: bool) -> None:
        """These are the items that the last commit left."""
        self._items = list(items)
        self._committed, self._gone, self._is_stored = len(self._items), [], is_stored

    def settle(self) -> None:
        """What it holds is committed."""
        self._committed, self._is_stored = len(self._items), True
        if self._gone:
            self._gone = []

    def roll_back(self) -> None:
        """Back to what the last commit left."""
        if self.has_changed:
            self._items = self._gone + self._items[: self._committed]
            self._committed, self._gone = len(self._items), []

    def savepoint(self) -> Savepoint:
        """What it holds now, for `go_back`."""
        return Savepoint(list(self._items), list(self._gone), self._committed)

    def go_back(self, point: Savepoint) -> None:
        """Holds again what it held then; nothing was committed since."""
        self._items, self._gone, self._committed = list(point.items), list(point.gone), point.committed
