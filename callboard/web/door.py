"""The door itself: an ASGI application for the runs of an app."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from callboard.foundation import MissingPackageError

from .access import Access, DoorOptions, Tokens

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from callboard.app import App
    from callboard.core.protocol import AgentRuntime

MOST_BODY = 1_000_000  # bytes
MOST_STREAMS = 1_000  # of one process


def asgi(
    app: App,
    runtime: AgentRuntime,
    *,
    access: Access | None = None,
    hosts: Sequence[str] | None = None,
    origins: Sequence[str] = (),
    serve_all: bool = False,
    max_body: int = MOST_BODY,
    max_streams: int = MOST_STREAMS,
) -> Starlette:
    """Make an application for any ASGI server, or to be mounted in another one.

    It does no work and keeps nothing: workers run the teams, and what a client needs to know is in the run. So any number
    of processes may serve side by side, and any of them may die.

    Args:
        app: What it declares with ``app.team(team, serve=True)`` is served, and nothing else.
        runtime: Reaches the server; it may run no agents (``app.running(types=[])``).
        access: Who comes in; None: nobody. See `Access`.
        hosts: Names in the `Host` header that are answered, without ports; None: all, for a host that has checked them.
        origins: Pages of other addresses that may send requests, such as ``https://shop.example``.
        serve_all: Serve every team, for a try on one's own machine.
        max_body: Largest body, in bytes.
        max_streams: Most readers of events at once; more are told to come again.

    Raises:
        MissingPackageError: The extra `web` is not installed (an ImportError).
    """
    try:
        import starlette as _  # noqa: F401
    except ImportError:
        raise MissingPackageError("starlette", "web") from None
    from callboard.runtime.runtime import on_bus

    from .application import application

    options = DoorOptions(
        access=Tokens(()) if access is None else access,
        hosts=None if hosts is None else frozenset(name.lower() for name in hosts),
        origins=frozenset(origins),
        serve_all=serve_all,
        max_body=max_body,
        max_streams=max_streams,
    )
    return application(app, on_bus(runtime), options)
