"""Orders that go before all queued work: pause, resume, cancel, reset; from any process, and they outlast every restart."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from callboard.broker import AgentId, AgentType
from callboard.broker.ids import IdSource, check_text
from callboard.broker.redis.client.transport import RedisTransport

if TYPE_CHECKING:
    from callboard.broker.redis.operations.views import Pause


class Control:
    """Gives orders to the workers of a namespace.

    What is paused is not started any more, whatever worker asks, until it is resumed; what runs goes on, unless it is
    paused with `now`. Messages are kept meanwhile and handled in their order afterwards.

    Args:
        connect: returns the open transport.
    """

    def __init__(self, connect: Callable[[], Awaitable[RedisTransport]]) -> None:
        self._connect = connect
        self._ids = IdSource()

    async def pause(self, what: AgentId | AgentType | str, *, by: str = "", now: bool = False) -> bool:
        """Pauses an agent type, or one agent.

        Args:
            what: an agent type, by its name too, or the id of an agent.
            by: who says so, to be shown.
            now: what runs is interrupted, wherever it runs: its handler gets CancelledError, and nothing of it is
                committed. After `resume` it runs again from its start, what `ctx.once` recorded answers at once, and no
                attempt is counted. What is paused already is interrupted as well.

        Returns:
            False when it was paused already.
        """
        return await self._order("pause", *_target(what), by, *(("now",) if now else ()))

    async def cancel(self, message_id: str) -> None:
        """Cancels a message that was sent with ``tell(..., message_id=..., cancellable=True)``.

        One that was not begun is dropped; where its handler runs, that gets CancelledError, and the message is over
        without any effect. One that is committed already stays so. It is remembered for `dedupe_window`: a message that
        is due later is handled.

        Args:
            message_id: the id that its sender gave it.
        """
        transport = await self._connect()
        until = int(time.time() * 1000) + int(transport.settings.dedupe_window * 1000)
        await transport.order("cancel", check_text("message id", message_id), until)

    async def resume(self, what: AgentId | AgentType | str, *, by: str = "") -> bool:
        """Lets an agent type, or one agent, go on; False when it was not paused."""
        return await self._order("resume", *_target(what), by)

    async def pause_topic(self, topic_type: str, *, by: str = "") -> bool:
        """Pauses a topic: its messages are not started any more, those of other topics are.

        An agent whose next message came by this topic waits, also for what came later by others: its order holds.
        """
        return await self._order("pause", "topic", topic_type, by)

    async def resume_topic(self, topic_type: str, *, by: str = "") -> bool:
        """Lets a topic go on; False when it was not paused."""
        return await self._order("resume", "topic", topic_type, by)

    async def paused(self) -> list[Pause]:
        """The agent types, agents and topics that are paused, the longest-paused first."""
        from callboard.broker.redis.operations.inspect import paused

        transport = await self._connect()
        return list(paused(await transport.admin.command("HGETALL", transport.keys.of("paused"))))

    async def reset(self, agent_id: AgentId, *, by: str = "") -> bool:
        """Lets an agent begin anew: its state is the default again, before any queued message is handled.

        A message that is being handled is finished first. What is queued stays queued.

        Returns:
            False when its type is not declared, or a reset of it waits already.
        """
        return await self._order("reset", agent_id.type, agent_id.key, self._ids.next(), by)

    async def _order(self, *arguments: str) -> bool:
        return await (await self._connect()).order(*arguments)


def _target(what: AgentId | AgentType | str) -> tuple[str, str]:
    if isinstance(what, AgentId):
        return "key", str(what)
    return "type", AgentType(what).type if isinstance(what, str) else what.type
