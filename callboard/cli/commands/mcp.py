"""`callboard mcp`: the teams of an app as tools of the program that starts it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from callboard.cli.options import Namespace, ServeAll, Target, Url
from callboard.cli.sessions import check_served, publisher, run
from callboard.cli.team_conversation import user_name

if TYPE_CHECKING:
    from callboard.app import App


def mcp(
    target: Target,
    serve_all: ServeAll = False,
    url: Url = None,
    namespace: Namespace = None,
) -> int:
    """Serve teams as tools of an MCP client.

    A client, such as an editor or a desktop assistant, starts this command and talks to it by stdin and stdout. Each team is
    a tool; a call is a run, which workers carry out and which goes on when the client is gone. Who starts the command may do
    all of it. Over HTTP, with tokens, it is the path /mcp of `callboard serve`.

      callboard mcp shop:app --all

    Exit codes: 0 the client has ended it, 2 wrong use, 3 no server, 130 Ctrl-C.
    """
    from callboard.foundation import MissingPackageError
    from callboard.process.loader import load_app

    try:
        import mcp.server as _  # noqa: F401
    except ImportError:
        raise MissingPackageError("mcp", "mcp") from None
    app = load_app(target)
    check_served(app, serve_all)
    run(_serve(app, serve_all, url, namespace))
    return 0


async def _serve(app: App, serve_all: bool, url: str | None, namespace: str | None) -> None:
    from mcp.server.stdio import stdio_server

    from callboard.runtime.runtime import on_bus
    from callboard.web import Identity
    from callboard.web.mcp_door import McpDoor
    from callboard.web.served_runs import ServedRuns

    me = Identity(name=user_name() or "local")

    async def who(ctx: Any, scope: str) -> Identity:
        return me

    async with publisher(app, url, namespace) as runtime:
        runs = ServedRuns.of_app(app, on_bus(runtime), serve_all)
        server = McpDoor(runs, who, app.name).server
        async with stdio_server() as (received, sent):
            await server.run(received, sent, server.create_initialization_options())
