"""The process that becomes the code's interpreter: it gives up its rights and sets its limits first."""

from __future__ import annotations

import os
import resource
import signal

from . import landlock, seccomp
from .kernel import PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, drop_capabilities, prctl
from .namespaces import SHARED_MEMORY
from .plan import LANDLOCK, NAMESPACES, REFUSED, SECCOMP, Plan
from .processes import tasks_of_user

#: What launcher and keeper count for among the processes of a user.
OWN_PROCESSES = 2

#: How much less of a busy processor it gets than the worker.
NICER = 10
#: Descriptors above it can't be open: launcher and keeper open a handful.
OPEN_AT_MOST = 256


def run(plan: Plan) -> None:
    """Become the interpreter. Only returns by ending the process, with a sentence, when it could not."""
    try:
        _separate()
        os.chdir(plan.folder)
        _limit(plan)
        _confine(plan)
        os.execve(plan.command[0], plan.command, dict(os.environ))
    except (OSError, ValueError, MemoryError) as error:
        os.write(1, f"The code could not be started: {error}\n".encode())
    finally:
        os._exit(REFUSED)


def _separate() -> None:
    """A session, a process group and signals of its own, and nothing open but its output."""
    os.setsid()
    os.umask(0o077)
    os.nice(NICER)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        # Those that a process ignores are ignored by the programs it becomes: Python ignores SIGPIPE and SIGXFSZ.
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(1, 2)
    os.closerange(3, OPEN_AT_MOST)


def _limit(plan: Plan) -> None:
    limits = {
        "RLIMIT_AS": plan.memory,
        "RLIMIT_CPU": plan.cpu_seconds,
        "RLIMIT_NOFILE": plan.open_files,
        "RLIMIT_FSIZE": plan.file_size,
        "RLIMIT_CORE": 0,
    }
    # Outside of namespaces all processes of the user count, the worker's own too. It is no limit for root.
    others = OWN_PROCESSES if NAMESPACES in plan.measures else tasks_of_user(os.geteuid())
    limits["RLIMIT_NPROC"] = plan.processes + others
    for name, value in limits.items():
        which = getattr(resource, name)
        hardest = resource.getrlimit(which)[1]
        most = value if hardest == resource.RLIM_INFINITY else min(value, hardest)
        resource.setrlimit(which, (most, most))


def _confine(plan: Plan) -> None:
    if os.uname().sysname != "Linux":
        return
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    drop_capabilities()
    if LANDLOCK in plan.measures:
        shared = [SHARED_MEMORY] if NAMESPACES in plan.measures else []
        landlock.restrict(plan.readable, [plan.folder, *shared])
    if SECCOMP in plan.measures:
        seccomp.refuse(network=plan.network)
