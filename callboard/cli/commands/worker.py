"""`callboard worker`: one process. Most such lines are read by worker_line.py; help and errors come from here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from callboard.cli.options import Grace, MaxMemory, MaxMessages, Namespace, Target, Url
from callboard.cli.worker_line import WorkerLine


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
    folder: Annotated[Path | None, typer.Option(hidden=True)] = None,
    watch: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> int:
    """Run agents in this process, until SIGTERM or Ctrl-C.

    Then it takes no new messages, lets running handlers finish within the grace period and gives the rest to
    other workers, without counting an attempt. A second signal ends it at once. `callboard up` runs and
    supervises one for each type. A process that passes --max-memory or --max-messages drains as well and ends
    with 79, and is then to be started again (systemd: Restart=on-failure). In a container, --health-file and
    `callboard health` make its health check.

      callboard worker counting:app --type counter
      callboard worker counting:app --type counter --url redis://10.0.0.5:6379 --grace 10 --max-memory 500MB

    Exit codes: 0 drained, 1 failed, 2 wrong use, 3 no server, 75 a handler blocked it past its max_runtime,
    78 lacks rights or memory and would fail again, 79 passed a limit and drained, 130 stopped at once by a second signal.
    """
    from callboard.cli.working import work

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
            folder=folder,
            watch=watch,
        )
    )
