"""`callboard types`: the agent types of a namespace. One function for each command, and a line at the end."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from callboard.cli.exits import CommandFailed, bad_use
from callboard.cli.options import AsJson, Namespace, OptionalTarget, Url, command, split_names
from callboard.cli.output import ago, hint, print_json, say, say_table
from callboard.cli.sessions import operator, run, seen
from callboard.foundation.texts import one_line

if TYPE_CHECKING:
    from callboard.broker.redis.operations.agent_types import TypeRecord
    from callboard.broker.redis.operations.retyping import Holdings, Waiting


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


Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]


def rename(
    names: Annotated[
        list[str],
        typer.Argument(metavar="[MODULE:APP] OLD NEW", help="The app, for its namespace; then both names."),
    ],
    begun: Annotated[
        bool,
        typer.Option(
            "--begun",
            help="Also where handlers have begun: they send again what they sent before their commit.",
        ),
    ] = False,
    url: Url = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Give an agent type another name, with all that is kept for it.

    Its subscriptions, what waits for it and in which order, its agents' states and logs, timers, questions, pauses
    and dead letters go with it. Stop its workers first, rename, then start those of the new name. What is published
    meanwhile is handled afterwards. An interrupted rename goes on when it is run again; until then no process can use
    either name.

    It is refused while a worker has one of the names, and once the new name was used; and, without --begun, where
    handlers have begun and will run again, such as one that waits for an answer: ids of what they send before their
    commit, and keys of ctx.idempotency_key, are made from the type's name.

    Run again later, it sends on what others have sent to the old name since.

      callboard types rename counting:app counter tally
      callboard types rename counter tally --namespace counting

    Exit codes: 0 renamed, 1 refused, 2 wrong use, 3 no server.
    """
    from callboard.broker.redis.operations.retyping import Renamed, TypeChangeError, rename_type

    target, given = split_names(names)
    if len(given) != 2:
        bad_use("give two names: the type's and its new one")
    old, new = given

    async def work() -> Renamed:
        async with operator(target, url, namespace) as transport:
            try:
                return await rename_type(transport, old, new, begun=begun)
            except TypeChangeError as error:
                raise CommandFailed(str(error)) from error

    done = run(work())
    if as_json:
        print_json(done)
    elif done.again:
        say(
            f"{old} was renamed to {new} before; {done.forwarded} messages that came for {old} since went on to {new}"
        )
    else:
        say(f"{old} is {new} now" + (": an interrupted rename went on" if done.resumed else ""))


def remove(
    names: Annotated[
        list[str],
        typer.Argument(metavar="[MODULE:APP] TYPE", help="The app, for its namespace; then the type."),
    ],
    waiting: Annotated[
        str,
        typer.Option(
            metavar="WHAT",
            help="What becomes of what waits: refuse (it is not removed), dead (dead letters), or discard.",
        ),
    ] = "refuse",
    yes: Yes = False,
    url: Url = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Remove an agent type: its subscriptions, and all that is kept for it.

    Its topics are no longer kept for it. Its agents' states and logs go, with its timers, questions and pauses, and,
    unless --waiting is dead, its dead letters. Who waits for a reply of it gets a DeadLetterError. It says first what
    there is, and asks; without a terminal it needs --yes. It is refused while a worker has the type. An interrupted
    one goes on when it is run again.

      callboard types remove counting:app counter
      callboard types remove counter --namespace counting --waiting dead --yes

    Exit codes: 0 removed, 1 refused, 2 wrong use, 3 no server.
    """
    from callboard.broker.redis.operations.retyping import waiting_of

    target, given = split_names(names)
    if len(given) != 1:
        bad_use("give one type: `callboard types list` shows all")
    fate = waiting_of(waiting)
    if fate is None:
        bad_use(f"--waiting {waiting} is none of refuse, dead and discard")
    (name,) = given
    found = run(_holdings(target, url, namespace, name))
    if not found.is_known:
        raise CommandFailed(f"there is no agent type {name!r}: `callboard types list` shows all")
    if not as_json:
        say(f"{name}: {found}")
    if fate == "refuse" and found.waiting != 0:
        choice = "say what becomes of them, with --waiting dead or --waiting discard"
        raise CommandFailed(f"messages wait for it: {choice}")
    if not yes:
        _ask(name)
    run(_remove(target, url, namespace, name, fate))
    if as_json:
        print_json({"removed": name, **asdict(found)})
    else:
        say(f"{name} is removed")


async def _holdings(target: str | None, url: str | None, namespace: str | None, name: str) -> Holdings:
    from callboard.broker.redis.operations.retyping import holdings_of

    async with operator(target, url, namespace) as transport:
        return await holdings_of(transport, name)


def _ask(name: str) -> None:
    if not sys.stdin.isatty():
        bad_use(f"this removes {name}: add --yes")
    typer.confirm(f"Remove {name}?", abort=True)


async def _remove(
    target: str | None, url: str | None, namespace: str | None, name: str, waiting: Waiting
) -> None:
    from callboard.broker.redis.operations.retyping import TypeChangeError, remove_type

    async with operator(target, url, namespace) as transport:
        try:
            await remove_type(transport, name, waiting)
        except TypeChangeError as error:
            raise CommandFailed(str(error)) from error


types = typer.Typer(
    help="Agent types: list, rename and remove them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

command(types, "list", list_them)
command(types, "rename", rename)
command(types, "remove", remove)
