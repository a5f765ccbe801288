"""`callboard up` and `callboard worker`: processes that run agents."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from callboard.cli.exits import INTERRUPTED, bad_use
from callboard.cli.options import Grace, MaxMemory, MaxMessages, Namespace, Target, Url, split_counts
from callboard.cli.sessions import (
    check_types,
    grace_of,
    nothing_to_run,
    publisher,
    server_at,
    settings_for,
    with_limits,
    worker_options,
)
from callboard.cli.worker_line import WorkerLine

if TYPE_CHECKING:
    from callboard.app import App
    from callboard.broker import BrokerSettings
    from callboard.broker.redis.client.transport import RedisTransport
    from callboard.process.supervisor import Ending, RestartPolicy


logger = logging.getLogger("callboard.cli")

MANY = 1_000_000  # restarts


def up(
    target: Target,
    more: Annotated[list[str] | None, typer.Argument(metavar="[TYPE=N]...", hidden=True)] = None,
    processes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TYPE=N", help="Processes for an agent type, 0 for none here. Default: as the app says."
        ),
    ] = None,
    together: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Processes that run all agent types, 0 for each type in its own. Default: as the app says.",
        ),
    ] = None,
    restarts: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="Restarts of a process in a row before everything is stopped."),
    ] = 5,
    fork: Annotated[
        bool,
        typer.Option(
            "--fork/--no-fork",
            help="Three processes or more share the installed packages that they load, on Linux; or each loads its own.",
        ),
    ] = True,
    reload: Annotated[
        bool,
        typer.Option(
            "--reload", help="For development: start the processes anew when a Python file changes."
        ),
    ] = False,
    url: Url = None,
    namespace: Namespace = None,
    grace: Grace = None,
    max_memory: MaxMemory = None,
    max_messages: MaxMessages = None,
) -> int:
    """Run an app, each agent type in processes of its own.

    A process that dies is started again, after a pause that doubles each time, and the messages that it held
    go to the others at once. Ctrl-C or SIGTERM lets running handlers finish within the grace period; a second one
    stops at once. A process that passes --max-memory or --max-messages drains and is replaced at once, which does
    not count as a death. A terminal shows a live table; elsewhere a line is printed when something changes.

    With --together all agent types run in the same processes, which takes less memory where there is little to do.

    With --reload the Python files in the current folder and below are watched. When one changes, the processes finish
    what they run and start anew. A change that can't be imported is shown, and what ran goes on.

      callboard up counting:app
      callboard up counting:app --reload
      callboard up counting:app --together 2
      callboard up counting:app --processes counter=3 --url redis://10.0.0.5:6379

    Exit codes: 0 drained, 1 a process died too often, 2 wrong use, 3 no server, 78 a process lacks rights or
    memory and would fail again, 130 stopped at once.
    """
    from callboard.process.loader import load_app
    from callboard.process.printer import unhindered
    from callboard.process.supervisor import Ending, RestartPolicy

    app = load_app(target)
    given = [*(processes or []), *(more or [])]
    if together and given:
        bad_use(
            f"--together {together} runs all agent types in the same processes: leave out {given[0]}, or --together"
        )
    counts = counts_of(app, given)
    together = together_of(app, together, given)
    # Who edits a file leaves it broken now and then: that is no reason to stop everything.
    policy = RestartPolicy(limit=MANY, cap=5.0) if reload else RestartPolicy(limit=restarts)
    settings = with_limits(settings_for(app, url, namespace), max_memory, max_messages)
    with unhindered():
        ending = asyncio.run(_up(app, target, counts, together, policy, settings, grace, reload, fork))
    return INTERRUPTED if ending is Ending.KILLED else 0


def counts_of(app: App, given: list[str]) -> dict[str, int]:
    """The number of processes by agent type: the command line's, else the app's."""
    changes = split_counts(given, "--processes")
    check_types(app, list(changes))
    counts = {
        one.type: changes.get(one.type, one.processes if one.beside is None else 0)
        for one in app.declarations
    }
    running = {name: count for name, count in counts.items() if count}
    if not running:
        nothing_to_run(app, ", or check --processes")
    return running


def together_of(app: App, wanted: int | None, given: list[str]) -> int:
    """The number of processes that run all agent types: the command line's, else the app's; 0: each type has its own."""
    if wanted is not None:
        return wanted
    return 0 if given else app.together


async def _up(
    app: App,
    target: str,
    counts: dict[str, int],
    together: int,
    policy: RestartPolicy,
    settings: BrokerSettings,
    grace: float | None,
    reload: bool,
    fork: bool,
) -> Ending:
    from callboard.cli.fleet import Fleet, FleetPlan, board, reloading

    async with server_at(settings.url) as server, publisher(app, server.url, settings.namespace) as runtime:
        plan = FleetPlan(
            target=target,
            processes=counts,
            together=together,
            url=settings.url,
            namespace=runtime.transport.keys.namespace,
            grace=grace_of(grace, settings),
            policy=policy,
            options=worker_options(settings),
            fork=fork,
        )
        with board() as shown:
            shown.notice(
                f"{app.name} in namespace {settings.namespace} on {runtime.transport.endpoint.shown}"
            )
            if left := await _left_behind(runtime.transport, app, target):
                shown.notice(left)
            fleet = Fleet(plan, runtime.transport, shown, server.revive)
            async with reloading(fleet, plan, shown) if reload else contextlib.nullcontext():
                return await fleet.run()


async def _left_behind(transport: RedisTransport, app: App, target: str) -> str | None:
    """A line about agent types that the app lacks and no worker runs; None: there is none, or the user may not look."""
    from callboard.broker.errors import CommandError
    from callboard.broker.redis.operations.agent_types import left_types
    from callboard.foundation.texts import shell_line

    try:
        left = await left_types(transport, app.agent_types)
    except CommandError as refused:
        logger.debug("agent types that were left behind can't be looked for: %s", refused)
        return None
    if not left:
        return None
    shown = ", ".join(f"{one.type} ({'?' if one.waiting is None else one.waiting} wait)" for one in left[:5])
    more = f" and {len(left) - 5} more" if len(left) > 5 else ""
    look = shell_line("callboard", "types", "list", target, "--namespace", transport.keys.namespace)
    return f"agent types that {app.name} does not declare and no worker runs: {shown}{more}; see {look}"


def worker(
    target: Target,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type", metavar="TYPE", help="An agent type that it runs; may be repeated. Default: all."
        ),
    ] = None,
    url: Url = None,
    namespace: Namespace = None,
    grace: Grace = None,
    max_memory: MaxMemory = None,
    max_messages: MaxMessages = None,
    health_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Renewed while it works, for `callboard health`. Default: none."),
    ] = None,
    metrics_port: Annotated[
        str | None,
        typer.Option(
            metavar="[ADDRESS:]PORT", help="Gives out metrics, /healthz and /readyz. Default: nowhere."
        ),
    ] = None,
    folder: Annotated[Path | None, typer.Option(hidden=True)] = None,
    watch: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> int:
    """Run agents in this process, until SIGTERM or Ctrl-C.

    Then it takes no new messages, lets running handlers finish within the grace period and gives the rest to
    other workers, without counting an attempt. A second signal ends it at once. `callboard up` runs and
    supervises one for each type. A process that passes --max-memory or --max-messages drains as well and ends
    with 79, and is then to be started again (systemd: Restart=on-failure). In a container, --health-file and
    `callboard health` make its health check, and --metrics-port what Prometheus and probes by HTTP ask.

      callboard worker counting:app --type counter
      callboard worker counting:app --type counter --url redis://10.0.0.5:6379 --grace 10 --max-memory 500MB

    Exit codes: 0 drained, 1 failed, 2 wrong use, 3 no server, 75 a handler blocked it past its max_runtime,
    78 lacks rights or memory and would fail again, 79 passed a limit and drained, 130 stopped at once by a second signal.
    """
    from callboard.cli.worker_process import work

    return work(
        WorkerLine(
            target=target,
            types=tuple(types or ()),
            url=url,
            namespace=namespace,
            grace=grace,
            max_memory=max_memory,
            max_messages=max_messages,
            health_file=health_file,
            metrics_port=metrics_port,
            folder=folder,
            watch=watch,
        )
    )
