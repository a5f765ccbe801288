"""Changes on their way to the memory service: cut into messages, and gathered in a handler or outside of handlers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from callboard.broker.ids import TopicId, derived_id
from callboard.memory.base import MemoryContent
from callboard.memory.batches import Batches

from .messages import TOPIC, Add, Change, MemoryChanges

if TYPE_CHECKING:
    from callboard.protocol import AgentRuntime
    from callboard.runtime.execution import Execution

T = TypeVar("T")

MOST_CONTENTS: Final = 256  # in one message
# In one message, so that it stays below a payload's limit whatever the characters are.
MOST_CHARACTERS: Final = 100_000


class HandlerChanges:
    """The changes that one handler makes in one memory. They leave with the handler's commit, or never.

    Attributes:
        target: type of the memory service, and the agent whose memory it is.
        changes: in the order in which they were made.
    """

    def __init__(self, runtime: AgentRuntime, execution: Execution, target: tuple[str, str]) -> None:
        self.target = target
        self.changes: list[Change] = []
        self._runtime = runtime
        self._activation = execution
        self._count = 0

    @classmethod
    def of(cls, runtime: AgentRuntime, execution: Execution, target: tuple[str, str]) -> HandlerChanges:
        """The changes of a handler in a memory: one object, so that all of them keep their order."""
        for known in execution.before_commit:
            if isinstance(known, cls) and known.target == target:
                return known
        changes = cls(runtime, execution, target)
        execution.before_commit.append(changes)
        return changes

    def next_id(self) -> str:
        """The id of the next record that this handler adds: the same in every attempt at its message.

        A worker may die after its commit and before it has seen the answer, or be fenced while its message is handled
        elsewhere: what both attempts add gets the same ids, and the second one only writes the same records again.
        """
        self._count += 1
        where = "\0".join((str(self._activation.agent_id), *self.target))
        return derived_id(self._activation.message_id, where, self._count, b"memory")

    async def __call__(self) -> None:
        """Publish the changes; awaited before the commit, so that they belong to it."""
        changes, self.changes = self.changes, []
        service, agent = self.target
        for message in messages_of(changes):
            await self._runtime.publish_message(
                message, TopicId(f"{service}:{TOPIC}", agent), sender=self._activation.agent_id
            )


class GatheredChanges:
    """Changes outside of handlers: while one request is under way, the next one gathers.

    One request at a time also keeps them in order: the service handles two requests that are under way at once in the
    order in which they reach the server, which need not be the order of the calls.

    Args:
        ask: Makes a request to the service.
    """

    def __init__(self, ask: Callable[[MemoryChanges], Awaitable[Any]]) -> None:
        self._ask = ask
        self._batches = Batches[list[Change], None](self._send)

    async def send(self, changes: list[Change]) -> None:
        """Send changes, and wait until they are carried out."""
        await self._batches.add(changes)

    async def _send(self, batch: list[list[Change]]) -> list[None]:
        for message in messages_of(change for changes in batch for change in changes):
            await self._ask(message)
        return [None] * len(batch)


def messages_of(changes: Iterable[Change]) -> list[MemoryChanges]:
    """Changes in messages, in order, each small enough to be sent."""
    groups = _grouped(changes, lambda change: change.contents if isinstance(change, Add) else [])
    return [MemoryChanges(changes=group) for group in groups]


def additions_of(contents: Iterable[MemoryContent], ttl: float | None) -> list[Change]:
    """Contents as changes, each small enough for one message."""
    return [Add(contents=group, ttl=ttl) for group in _grouped(contents, lambda content: [content])]


def _grouped(items: Iterable[T], contents_of: Callable[[T], list[MemoryContent]]) -> list[list[T]]:
    groups: list[list[T]] = []
    count = size = 0
    for item in items:
        contents = contents_of(item)
        length = sum(len(content.text) for content in contents)
        count, size = count + len(contents), size + length
        if not groups or count > MOST_CONTENTS or size > MOST_CHARACTERS:
            groups.append([])
            count, size = len(contents), length
        groups[-1].append(item)
    return groups
