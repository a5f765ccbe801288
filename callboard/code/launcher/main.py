"""The launcher's first process: it outlives the code, and leaves nothing of it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

from . import keeper, namespaces
from .children import drain, end_of_children, exit_code, kill_all, wait_for
from .kernel import adopt_orphans
from .plan import CANCELLED, KILLED, NAMESPACES, REFUSED, TIMEOUT, Plan


def main() -> None:
    """Run a plan, the first argument, and end with the code's exit code.

    Its output goes to ours. The end of our input means that the executor wants it stopped, or is gone.
    """
    plan = Plan.from_json(sys.argv[1])
    try:
        prepare(plan)
    except OSError as error:
        keeper.say(f"The code could not be confined: {error}")
        os._exit(REFUSED)
    os._exit(_run(plan))


def prepare(plan: Plan) -> None:
    """Enter the namespaces, and become the parent of every orphan among our descendants."""
    adopt_orphans()
    if NAMESPACES in plan.measures:
        namespaces.enter(network=plan.network)


def _run(plan: Plan) -> int:
    deadline = time.monotonic() + plan.timeout
    ended = end_of_children()
    ours, keepers = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(keepers)
        keeper.run(plan, ours)
    os.close(ours)
    code = _wait(child, ended, deadline)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    kill_all()
    if code == TIMEOUT and time.monotonic() >= deadline:
        keeper.say(f"Timeout: stopped after {plan.timeout:g} s.")
    return code


def _wait(child: int, ended: int, deadline: float) -> int:
    while True:
        ready = wait_for([0, ended], deadline - time.monotonic())
        if ended in ready:
            drain(ended)
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return exit_code(status)
        if 0 in ready:
            return CANCELLED
        if not ready:
            return TIMEOUT if time.monotonic() >= deadline else KILLED
