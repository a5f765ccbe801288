"""The command and the environment of a worker process."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

WATCHED_PIPE = "{watched}"
"""Stands in a command for the number of the descriptor whose end of file says that the supervisor is gone."""


def worker_command(
    target: str, agent_type: str, *, namespace: str, grace: float, options: Sequence[str] = ()
) -> tuple[str, ...]:
    """The command that runs one agent type of `module:app` in a process of its own.

    The server's URL is not part of it: a command line is public, and a URL may hold a password. See
    `environment`.

    Args:
        target: `module:app`.
        agent_type: The type of the agents that it runs.
        namespace: The namespace on the server.
        grace: Seconds that running handlers get when it drains.
        options: Further options of `callboard worker`.
    """
    # -P: the current folder is no place to import `callboard` from; `worker` puts the app's folder on the path itself.
    return (
        *(sys.executable, "-P", "-m", "callboard.cli", "worker", target, "--type", agent_type),
        *("--namespace", namespace, "--grace", f"{grace:g}", "--watch", WATCHED_PIPE),
        *options,
    )


def environment(url: str | None, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment in which `python -m callboard.cli` finds the server and this very package.

    Args:
        url: Of the server; None: the processes use the embedded server as well, so that it outlives their supervisor.
        environ: The variables to start from; None: the environment of this process.
    """
    result = {**(os.environ if environ is None else environ), "PYTHONUNBUFFERED": "1"}
    # A health file is of one process, and these are looked after by their supervisor.
    for name in ("CALLBOARD_URL", "REDIS_URL", "CALLBOARD_HEALTH_FILE"):
        result.pop(name, None)
    if url is not None:
        result["CALLBOARD_URL"] = url
    root = str(Path(__file__).resolve().parents[2])
    if root not in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        result["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [result.get("PYTHONPATH")])])
    return result
