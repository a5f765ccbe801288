"""What the commands of the group share: how a run is named, found, and told something."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated

import typer

from callboard.cli.exits import FAILED, CommandFailed, bad_use
from callboard.cli.options import split_names
from callboard.cli.output import hint
from callboard.cli.sessions import runs_at

if TYPE_CHECKING:
    from callboard.runtime.runtime import RedisAgentRuntime
    from callboard.teams import RunSummary, TeamClient

RunNames = Annotated[
    list[str],
    typer.Argument(
        metavar="[MODULE:APP] RUN",
        help="The app, for its namespace; then a run as `runs list` shows it, or the beginning of its id.",
    ),
]


@contextlib.asynccontextmanager
async def chosen(
    names: list[str], url: str | None, namespace: str | None
) -> AsyncIterator[tuple[RedisAgentRuntime, RunSummary]]:
    """The run that a command line names, and a runtime on its server.

    Raises:
        CommandFailed: There is none or more than one of that name, or the command line names none.
    """
    from callboard.teams import RunNotFoundError, find_run

    # The id of a run may look like module:app; alone it is no app.
    target, rest = (None, names) if len(names) == 1 else split_names(names)
    if len(rest) != 1:
        bad_use(
            "give an app or --namespace, and one run as `callboard runs list` shows it; the beginning of its id is enough"
        )
    async with runs_at(target, url, namespace) as runtime:
        try:
            run = await find_run(runtime, rest[0])
        except RunNotFoundError as error:
            raise CommandFailed(f"{error} `callboard runs list` shows them all", FAILED) from error
        yield runtime, run


@contextlib.asynccontextmanager
async def leader(runtime: RedisAgentRuntime, run: RunSummary) -> AsyncIterator[TeamClient]:
    """Gives orders to the manager of a run; what it refuses ends the command with its reason.

    Raises:
        CommandFailed: The run has ended, or nobody knows whose it is.
    """
    from callboard.teams import TeamError

    if run.ended is not None:
        raise CommandFailed(f"the run {run.run_id} has ended: it is {run.state}", FAILED)
    client = await whose(runtime, run)
    try:
        yield client
    except TeamError as error:
        raise CommandFailed(str(error), FAILED) from error


async def whose(runtime: RedisAgentRuntime, run: RunSummary, *, needs_worker: bool = True) -> TeamClient:
    """The conversation of a run.

    Args:
        runtime: Reaches it.
        run: The run.
        needs_worker: Say so when nobody is there who could take an order.

    Raises:
        CommandFailed: Nobody knows whose it is.
    """
    from callboard.broker.redis.operations.inspect import has_worker
    from callboard.teams import TeamClient

    if not run.team:
        raise CommandFailed(f"no team is known for the run {run.run_id}: its beginning is not kept", FAILED)
    if needs_worker and not await has_worker(runtime.transport, run.team):
        hint(f"no worker runs {run.team!r} now; the order waits for one: `callboard up MODULE:APP`")
    return TeamClient(runtime, run.team, run.conversation)
