"""`callboard schedules pause`, `resume` and `remove`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from callboard.cli.exits import FAILED, CommandFailed, bad_use
from callboard.cli.options import Namespace, Url, split_names
from callboard.cli.output import say
from callboard.cli.sessions import run, runs_at

if TYPE_CHECKING:
    from callboard.runtime.schedules import Schedules

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

    async def order(schedules: Schedules, name: str) -> str:
        return f"{name} is paused" if await schedules.pause(name) else f"{name} was paused already"

    _give(names, url, namespace, order)


def resume(names: Names, url: Url = None, namespace: Namespace = None) -> None:
    """Resume schedules that were paused.

      callboard schedules resume office:app weekly

    Exit codes: 0 they go on, 1 there is no such schedule, 2 wrong use, 3 no server.
    """

    async def order(schedules: Schedules, name: str) -> str:
        return f"{name} goes on" if await schedules.resume(name) else f"{name} was not paused"

    _give(names, url, namespace, order)


def remove(names: Names, url: Url = None, namespace: Namespace = None) -> None:
    """Remove schedules, such as those of an app that is gone.

    One that its app still declares comes back when the next process of the app starts: pause it, or take it out of the app.

      callboard schedules remove weekly --namespace office

    Exit codes: 0 removed, 1 there is no such schedule, 2 wrong use, 3 no server.
    """

    async def order(schedules: Schedules, name: str) -> str:
        await schedules.remove(name)
        return f"{name} is removed"

    _give(names, url, namespace, order)


def _give(
    names: list[str],
    url: str | None,
    namespace: str | None,
    order: Callable[[Schedules, str], Awaitable[str]],
) -> None:
    target, rest = split_names(names)
    if not rest:
        bad_use("name a schedule, as `callboard schedules list` shows it")

    async def work() -> None:
        from callboard.runtime.errors import UnknownScheduleError

        async with runs_at(target, url, namespace) as runtime:
            for name in rest:
                try:
                    say(await order(runtime.schedules, name))
                except UnknownScheduleError as error:
                    raise CommandFailed(str(error), FAILED) from error

    run(work())
