"""`callboard dashboard`: a namespace in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from callboard.cli.exits import FAILED, bad_use
from callboard.cli.options import Namespace, OptionalTarget, Url
from callboard.cli.output import hint, say
from callboard.cli.sessions import run, runs_at
from callboard.cli.team_conversation import user_name

if TYPE_CHECKING:
    from callboard.web.access import Tokens

LOCAL = ("127.0.0.1", "localhost", "::1")


def dashboard(
    target: OptionalTarget = None,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", min=0, max=65535, help="0: a free one.")] = 8770,
    read_only: Annotated[bool, typer.Option("--read-only", help="Nothing can be changed by it.")] = False,
    tokens: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Who may come in, as for `callboard serve`; default: who has the printed link.",
        ),
    ] = None,
    host_name: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name under which it is reached, besides this machine's."),
    ] = None,
    url: Url = None,
    namespace: Namespace = None,
) -> int:
    """Show a namespace in the browser, live.

    What waits and why, what was said, who is asked, what failed. It prints a link with a token, which is good as long as
    the command runs. Any number may look; the server is looked at once a second for all of them, and not at all while
    nobody does. With an app its own message classes are known; without one they are shown as JSON.

      callboard dashboard shop:app
      callboard dashboard --namespace shop --read-only
      callboard dashboard shop:app --tokens tokens.toml --host 0.0.0.0 --host-name board.example

    Exit codes: 0 ended by Ctrl-C or SIGTERM, 1 it can't listen there, 2 wrong use, 3 no server.
    """
    from callboard.cli.web_server import check_installed

    check_installed()
    from callboard.messages.unknown import show_unknown
    from callboard.web.access import Tokens
    from callboard.web.dashboard.application import one_token

    show_unknown()
    if tokens is None and host not in LOCAL:
        bad_use(
            "others can reach this address: give --tokens, with a token for each; "
            "`callboard serve MODULE:APP --new-token NAME` makes one"
        )
    if tokens is not None and read_only:
        bad_use('with --tokens the file says what each may do: scopes = ["read"]')
    token, known = one_token(user_name() or "local", read_only=read_only)
    who = known if tokens is None else Tokens.read(tokens)
    listening = (host, port, [*LOCAL, host, *(host_name or [])])
    link = f"/#token={token}" if tokens is None else "/"
    return 0 if run(_serve(target, (url, namespace), who, listening, link)) else FAILED


async def _serve(
    target: str | None,
    where: tuple[str | None, str | None],
    who: Tokens,
    listening: tuple[str, int, list[str]],
    link: str,
) -> bool:
    from callboard.cli.web_server import listen
    from callboard.web.dashboard.application import dashboard as made

    host, port, hosts = listening
    async with runs_at(target, *where) as runtime:
        door = made(runtime, who, hosts=frozenset(name.lower() for name in hosts))

        def say_where(at: str) -> None:
            hint(f"the dashboard of {runtime.transport.keys.namespace}; Ctrl-C ends it")
            say(f"{at}{link}")

        return await listen(door, host, port, say_where)
