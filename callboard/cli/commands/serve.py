"""`callboard serve`: the runs of an app over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from callboard.cli.exits import FAILED, bad_use
from callboard.cli.options import Namespace, ServeAll, Target, Url
from callboard.cli.output import hint, say
from callboard.cli.sessions import check_served, publisher, run

if TYPE_CHECKING:
    from callboard.app import App
    from callboard.web import Access

LOCAL: Final = ("127.0.0.1", "localhost", "::1")


def serve(
    target: Target,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="0: a free one.")] = 8765,
    tokens: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Who may come in: a TOML file; see --new-token.")
    ] = None,
    host_name: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name under which it is reached, besides this machine's."),
    ] = None,
    serve_all: ServeAll = False,
    new_token: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Print a new token, and its lines for the file; serve nothing."),
    ] = None,
    url: Url = None,
    namespace: Namespace = None,
) -> int:
    """Serve the runs of teams over HTTP.

    Clients begin runs, read them live, answer their questions and cancel them. It does no work itself: `callboard up` or
    `callboard worker` does. Any number may run side by side, and any may die: a client goes on where it was at another one.
    Without --tokens everybody on this machine comes in, and nobody else.

      callboard serve shop:app --all
      callboard serve shop:app --new-token ada
      callboard serve shop:app --tokens tokens.toml --host 0.0.0.0 --host-name agents.example

    Exit codes: 0 ended by Ctrl-C or SIGTERM, 1 it can't listen there, 2 wrong use, 3 no server.
    """
    from callboard.cli.web_server import check_installed
    from callboard.process.loader import load_app
    from callboard.web import Identity, Tokens, new_token as made

    if new_token is not None:
        token, lines = made(new_token)
        say(f"The token, which is kept nowhere: {token}\n\nIts lines for the file of --tokens:\n\n{lines}")
        return 0
    check_installed()
    if tokens is None and host not in LOCAL:
        bad_use(
            "others can reach this address: give --tokens, with a token for each (--new-token NAME makes one)"
        )
    app = load_app(target)
    if not app.hooks:
        check_served(app, serve_all)
    access: Access = Identity(name="local") if tokens is None else Tokens.read(tokens)
    listening = (host, port, [*LOCAL, host, *(host_name or [])])
    return 0 if run(_serve(app, access, serve_all, listening, (url, namespace))) else FAILED


async def _serve(
    app: App,
    access: Access,
    serve_all: bool,
    listening: tuple[str, int, list[str]],
    where: tuple[str | None, str | None],
) -> bool:
    from callboard.cli.web_server import listen
    from callboard.web import asgi

    host, port, hosts = listening
    async with publisher(app, *where) as runtime:
        door: Any = asgi(app, runtime, access=access, hosts=hosts, serve_all=serve_all)
        return await listen(
            door, host, port, lambda at: hint(f"serves {app.name} at {at}/api/v1; docs: docs/doors.md")
        )
