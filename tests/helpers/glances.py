"""A glance beside the whole look: the same of everything, while there is no more than a glance reaches."""

from __future__ import annotations

from dataclasses import replace

from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.operations.glance import glance
from callboard.broker.redis.operations.inspect import overview
from callboard.broker.redis.operations.views import Overview


async def overview_and_glance(transport: RedisTransport) -> Overview:
    """The whole look, to which a glance comes as well. Nothing may happen in the namespace meanwhile."""
    full, short = await overview(transport, ages=True), await glance(transport, ages=True)
    assert comparable(short) == comparable(full)
    return full


def comparable(view: Overview) -> Overview:
    """Without what says at which moment it was looked, and without groups, of which a glance has fewer."""
    return replace(
        view,
        at=0,
        types=tuple(replace(one, groups={}) for one in view.types),
        workers=tuple(replace(one, lease_ms_left=0) for one in view.workers),
    )
