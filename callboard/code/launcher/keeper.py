"""The keeper: the first process of the namespaces. When it ends, the kernel kills all others in them."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

from . import namespaces, program
from .children import drain, end_of_children, exit_code, kill_group, wait_for
from .kernel import PR_SET_PDEATHSIG, adopt_orphans, prctl
from .plan import KILLED, NAMESPACES, PROC, REFUSED, Plan
from .watch import PAUSE, Watch


def run(plan: Plan, launcher: int) -> NoReturn:
    """Start the program and keep watch until it ends; then end with its exit code.

    Args:
        plan: The run.
        launcher: A pipe that ends when the launcher does.
    """
    code = REFUSED
    try:
        arrange(plan)
        code = _keep(plan, launcher)
    except OSError as error:
        say(f"The code could not be confined: {error}")
    finally:
        os._exit(code)


def arrange(plan: Plan) -> None:
    """Take the measures that only the first process of the namespaces can take."""
    if os.uname().sysname == "Linux":
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    adopt_orphans()
    if NAMESPACES not in plan.measures:
        return
    if PROC in plan.measures:
        namespaces.mount_proc()
    namespaces.arrange_mounts(plan.folder)


def say(text: str) -> None:
    """Write a line of our own behind the code's output."""
    os.write(1, f"\n{text}\n".encode())


def _keep(plan: Plan, launcher: int) -> int:
    watch, ended = Watch(plan), end_of_children()
    child = os.fork()
    if child == 0:
        program.run(plan)
    while True:
        # An orphaned keeper ends, and the code with it
        ready = wait_for([ended, launcher], PAUSE)
        if launcher in ready:
            return KILLED
        drain(ended)
        code = _reap(child)
        if code is not None:
            return code
        passed = watch.look()
        if passed:
            kill_group(child)
            say(f"Stopped: {passed}.")
            return KILLED


def _reap(child: int) -> int | None:
    """Take away whoever ended; the exit code of this child if it was among them."""
    found = None
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return found
            if pid == child:
                found = exit_code(status)
    except ChildProcessError:
        return found
