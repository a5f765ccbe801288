"""`callboard schedules`: what is sent again and again. One function for each command, and a line at the end."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from callboard.cli.exits import FAILED, CommandFailed, bad_use
from callboard.cli.options import AsJson, Namespace, OptionalTarget, Target, Url, command, split_names
from callboard.cli.output import clock, duration, print_json, say, say_paused, say_resumed, say_table
from callboard.cli.sessions import publisher, run, runs_at

if TYPE_CHECKING:
    from callboard.runtime.control import Schedules, ScheduleStatus


def list_them(
    target: OptionalTarget = None, url: Url = None, namespace: Namespace = None, as_json: AsJson = False
) -> None:
    """List schedules: when each is due, and what became of it.

    One that is late has no worker process that looks to it: `callboard up` starts them. An app that declares a schedule
    no more ends it with the next process that starts.

      callboard schedules list office:app
      callboard schedules list --namespace office --json

    Exit codes: 0 listed, 2 wrong use, 3 no server.
    """

    async def read() -> tuple[list[ScheduleStatus], int]:
        async with runs_at(target, url, namespace) as runtime:
            return await runtime.schedules.list(), runtime.transport.now_ms()

    found, now = run(read())
    if as_json:
        print_json(found)
    elif not found:
        say("no schedules")
    else:
        header = ("SCHEDULE", "WHEN", "TO", f"NEXT ({time.strftime('%Z')})", "SENT", "LAST", "MISSED")
        say_table(header, [_row(one, now) for one in found], optional=("MISSED", "LAST", "SENT"))


def _row(one: ScheduleStatus, now: int) -> tuple[object, ...]:
    return (
        one.name,
        one.when,
        one.to,
        _next(one, now),
        one.count,
        None if one.sent is None else clock(one.sent),
        one.missed,
    )


def _next(one: ScheduleStatus, now: int) -> str:
    if one.paused is not None:
        by = f" by {one.paused_by}" if one.paused_by else ""
        return f"paused{by}, {duration(max(0.0, now / 1000 - one.paused.timestamp()))} ago"
    late = now / 1000 - one.due.timestamp()
    return f"{clock(one.due)}, late by {duration(late)}" if late > 1 else clock(one.due)


Names = Annotated[
    list[str],
    typer.Argument(
        metavar="[MODULE:APP] SCHEDULE...", help="The app, for its namespace; then names of schedules."
    ),
]


def pause(names: Names, url: Url = None, namespace: Namespace = None) -> None:
    """Pause schedules. Nothing is sent until `callboard schedules resume`.

    It holds for every process, also for those that start later. What falls due meanwhile is treated as missed when it is
    resumed: left out, made up for once, or each, as the schedule says.

      callboard schedules pause office:app weekly
      callboard schedules pause weekly daily --namespace office

    Exit codes: 0 paused, 1 there is no such schedule, 2 wrong use, 3 no server.
    """

    async def order(schedules: Schedules, name: str) -> None:
        say_paused(name, await schedules.pause(name))

    _give(names, url, namespace, order)


def resume(names: Names, url: Url = None, namespace: Namespace = None) -> None:
    """Resume schedules that were paused.

      callboard schedules resume office:app weekly

    Exit codes: 0 they go on, 1 there is no such schedule, 2 wrong use, 3 no server.
    """

    async def order(schedules: Schedules, name: str) -> None:
        say_resumed(name, await schedules.resume(name))

    _give(names, url, namespace, order)


def remove(names: Names, url: Url = None, namespace: Namespace = None) -> None:
    """Remove schedules, such as those of an app that is gone.

    One that its app still declares comes back when the next process of the app starts: pause it, or take it out of the app.

      callboard schedules remove weekly --namespace office

    Exit codes: 0 removed, 1 there is no such schedule, 2 wrong use, 3 no server.
    """

    async def order(schedules: Schedules, name: str) -> None:
        await schedules.remove(name)
        say(f"{name} is removed")

    _give(names, url, namespace, order)


def _give(
    names: list[str],
    url: str | None,
    namespace: str | None,
    order: Callable[[Schedules, str], Awaitable[None]],
) -> None:
    target, rest = split_names(names)
    if not rest:
        bad_use("name a schedule, as `callboard schedules list` shows it")

    async def work() -> None:
        from callboard.errors import UnknownNameError

        async with runs_at(target, url, namespace) as runtime:
            for name in rest:
                try:
                    await order(runtime.schedules, name)
                except UnknownNameError as error:
                    raise CommandFailed(str(error), FAILED) from error

    run(work())


def run_now(
    target: Target,
    name: Annotated[str, typer.Argument(metavar="SCHEDULE", help="The name of the schedule.")],
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Send at once what a schedule sends. When it is due next stays as it is.

      callboard schedules run-now office:app weekly

    Exit codes: 0 sent, 1 the app declares no such schedule, 2 wrong use, 3 no server.
    """
    from callboard.process.loader import load_app

    app = load_app(target)

    async def work() -> str:
        from callboard.errors import UnknownNameError

        async with publisher(app, url, namespace) as runtime:
            try:
                return await runtime.schedules.run_now(name)
            except UnknownNameError as error:
                raise CommandFailed(str(error), FAILED) from error

    say(run(work()))


schedules = typer.Typer(
    help="Schedules: what is sent again and again, and when.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

command(schedules, "list", list_them)
command(schedules, "pause", pause)
command(schedules, "resume", resume)
command(schedules, "remove", remove)
command(schedules, "run-now", run_now)
