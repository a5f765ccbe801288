"""`callboard types`: the agent types of a namespace. One function for each command, and a line at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from callboard.cli.options import AsJson, Namespace, OptionalTarget, Url, command
from callboard.cli.output import ago, hint, print_json, say, say_table
from callboard.cli.sessions import run, seen
from callboard.foundation.texts import one_line

if TYPE_CHECKING:
    from callboard.broker.redis.operations.agent_types import TypeRecord


def list_them(
    target: OptionalTarget = None, url: Url = None, namespace: Namespace = None, as_json: AsJson = False
) -> None:
    """List agent types: what each subscribes to, what waits for it, and whether a worker runs it.

    With an app it also says which of them the app does not declare: they were renamed or deleted there, or another
    app of the namespace declares them. The server knows of no apps, so that is for you to know.

      callboard types list counting:app
      callboard types list --namespace counting --json

    Exit codes: 0 listed, 2 wrong use, 3 no server.
    """
    from callboard.broker.redis.operations.agent_types import type_records
    from callboard.process.loader import load_app

    declared = None if target is None else load_app(target).agent_types

    async def read() -> tuple[tuple[TypeRecord, ...], int, str]:
        async with seen(target, url, namespace) as transport:
            clock = await transport.admin.command("TIME")
            found = await type_records(transport, declared)
            return found, int(clock[0]) * 1000, transport.keys.namespace

    found, now, where = run(read())
    if as_json:
        print_json(found)
    elif not found:
        say("no agent types")
    else:
        header = ("TYPE", "SUBSCRIBES TO", "WAITING", "ASKING", "DEAD", "WORKERS", "DECLARED")
        say_table(header, [_row(one) for one in found], optional=("DEAD", "ASKING"))
        for one in found:
            if one.is_left:
                hint(said_of(one, now, where))


def _row(one: TypeRecord) -> tuple[object, ...]:
    names = " ".join(name.rpartition("->")[0] for name in one.subscriptions)
    declared = {None: "", True: "yes", False: "no"}[one.declared]
    waiting = "?" if one.waiting is None else one.waiting
    return one.type, one_line(names), waiting, one.suspended, one.dead, one.workers, declared


def said_of(one: TypeRecord, now: int, namespace: str) -> str:
    """What is known of a type that the app in hand lacks and no worker runs, and what to do."""
    from callboard.broker.redis.operations.agent_types import advice_on

    since = ago(one.joined, now)
    last = f"the last worker with it joined {since} ago" if since else "no worker with it is remembered"
    return (
        f"{one.type}: the app does not declare it, no worker runs it, and {last}; {advice_on(one, namespace)}"
    )


types = typer.Typer(
    help="Agent types: list, rename and remove them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

command(types, "list", list_them)
