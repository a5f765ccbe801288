"""`callboard runs list`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from callboard.cli.exits import bad_use
from callboard.cli.options import AsJson, Namespace, OptionalTarget, Url
from callboard.cli.output import duration, hint, print_json, say, say_table
from callboard.cli.sessions import run, runs_at

if TYPE_CHECKING:
    from callboard.teams import RunSummary


def list_them(
    target: OptionalTarget = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="STATE", help="Only runs that are working, paused, completed, failed or cancelled."
        ),
    ] = None,
    team: Annotated[str | None, typer.Option(metavar="TEAM", help="Only runs of this team.")] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Most runs to show, the newest first.")] = 20,
    url: Url = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """List runs, the newest first.

    The other commands take a run as the column RUN shows it, or the beginning of it. Runs are kept for `run_retention`
    after their last event, 7 days if nothing else is set. A task that waits for another run is listed once it begins.

      callboard runs list poets:app
      callboard runs list poets:app --state failed --limit 5
      callboard runs list --namespace poems --json

    Exit codes: 0 listed, 2 wrong use, 3 no server.
    """
    from typing import get_args

    from callboard.teams.orders import RunState

    states = [*get_args(RunState), "unknown"]
    if state is not None and state not in states:
        bad_use(f"--state is one of {', '.join(states)}, and not {state!r}")

    async def read() -> list[RunSummary]:
        from callboard.teams import list_runs

        async with runs_at(target, url, namespace) as runtime:
            return await list_runs(runtime, state=state, team=team, limit=limit + 1)

    found = run(read())
    is_cut, found = len(found) > limit, found[:limit]
    if as_json:
        print_json(found)
    elif not found:
        say("no runs" if state is None and team is None else "no such runs")
    else:
        header = ("RUN", "TEAM", "CONVERSATION", "STATE", "BEGAN", "TOOK", "ENTRIES")
        say_table(header, [_row(one) for one in found], optional=("ENTRIES", "TOOK"))
    if is_cut:
        hint(f"there are older ones: --limit {limit * 10} shows more")


def _row(one: RunSummary) -> tuple[object, ...]:
    return (
        one.run_id,
        one.team or None,
        one.conversation or None,
        one.state,
        shown_time(one.began),
        duration((one.ended - one.began).total_seconds()) if one.ended else None,
        one.entries,
    )


def shown_time(when: datetime) -> str:
    """A time for people, by the clock of the place where they are."""
    return when.astimezone().strftime("%Y-%m-%d %H:%M:%S")
