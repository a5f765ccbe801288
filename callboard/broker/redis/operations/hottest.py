"""The agents for whom most messages wait."""

from __future__ import annotations

import heapq

from callboard.broker.redis.client.transport import RedisTransport

from .inspect import overview
from .load import Load, load_of, look_at_parked
from .states import sizes_of
from .views import KeyView


async def hottest(
    transport: RedisTransport, agent_type: str | None = None, n: int = 10
) -> tuple[KeyView, ...]:
    """The agents for whom most messages wait, the most first; those that nothing waits for are left out.

    Of what was not read yet, the first 100,000 entries of each type are looked at.

    Args:
        transport: where.
        agent_type: agents of this type; None: of all types.
        n: how many of each type at most.
    """
    view = await overview(transport)
    found: list[KeyView] = []
    for one in view.types:
        if agent_type in (None, one.type):
            load = await load_of(transport, view, one.type)
            top = heapq.nlargest(n, ((number, key) for key, number in load.waiting.items() if number > 0))
            found += [await _key_view(transport, load, one.type, key) for _, key in top]
    return tuple(sorted(found, key=lambda one: (-one.waiting, one.type, one.key)))


async def _key_view(transport: RedisTransport, load: Load, agent_type: str, key: str) -> KeyView:
    await look_at_parked(transport, agent_type, key, load)
    sizes = await sizes_of(transport, agent_type, key)
    return KeyView(
        type=agent_type,
        key=key,
        waiting=load.waiting[key],
        running=key in load.running,
        oldest=load.since(key),
        state_bytes=sizes.total if sizes else 0,
    )
