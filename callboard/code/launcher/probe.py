"""Finding out which measures this system allows, by taking them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable

from . import (
    LANDLOCK,
    MEASURES,
    NAMESPACES,
    PROC,
    SECCOMP,
    LaunchPlan,
    kernel,
    main as launch,
)
from .kernel import PR_SET_NO_NEW_PRIVS, prctl


def main() -> None:
    """Write the measures that work, and the version of Landlock, as JSON. The first argument is a plan."""
    plan = LaunchPlan.from_json(sys.argv[1])
    works: list[str] = []
    for measure in MEASURES:
        if _works(_TRIALS[measure], plan._replace(measures=[*works, measure])):
            works.append(measure)
    version = kernel.landlock_version() if LANDLOCK in works else 0
    sys.stdout.write(json.dumps({"measures": works, "landlock": version}))


def _works(trial: Callable[[LaunchPlan], None], plan: LaunchPlan) -> bool:
    """Whether a trial succeeds, in a process of its own."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            trial(plan)
            code = 0
        except OSError:
            code = 1
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1] == 0


def _try_namespaces(plan: LaunchPlan) -> None:
    launch.prepare(plan)
    if not _works(launch.arrange, plan):
        raise OSError("the mounts can't be arranged")


def _try_sockets(plan: LaunchPlan) -> None:
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    kernel.refuse_calls(network=plan.network)


def _try_landlock(plan: LaunchPlan) -> None:
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    kernel.restrict_files(plan.readable, [plan.folder])


_TRIALS = {
    NAMESPACES: _try_namespaces,
    PROC: _try_namespaces,
    SECCOMP: _try_sockets,
    LANDLOCK: _try_landlock,
}
