"""How a request finds the agent that waits further up in its chain, and may be asked while it waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from callboard.broker.envelope import Route

from .errors import ChainTooDeepError, DeadlockError
from .execution import Execution

DEEPEST_CHAIN: Final = 32  # requests within requests, where agents may be asked while they wait


def routes_behind(execution: Execution, ask: str) -> Mapping[str, Route] | None:
    """How the agents that a request reaches can ask back those that wait for it.

    Args:
        execution: The handler that asks.
        ask: Id of the request.
    """
    routes = execution.envelope.routes
    if execution.door is None:
        return routes
    return {**(routes or {}), str(execution.agent_id): (execution.door.message_id, ask)}


def way_back(recipient: str, chain: tuple[str, ...], routes: Mapping[str, Route] | None) -> Route:
    """Where a request goes whose recipient waits further up in its chain.

    Raises:
        DeadlockError: it lets nothing in while it waits.
        ChainTooDeepError: the chain is too long already.
    """
    route = (routes or {}).get(recipient)
    if route is None:
        raise DeadlockError((*chain, recipient))
    if len(chain) >= DEEPEST_CHAIN:
        raise ChainTooDeepError((*chain, recipient), DEEPEST_CHAIN)
    return route
