"""How far this system lets code be confined."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from .errors import ConfinementError
from .launcher.plan import LANDLOCK, NAMESPACES, SECCOMP, Plan

__all__ = ["Confinement", "Measure", "launcher_command"]

Measure = Literal["network", "writing", "reading", "processes"]

#: The first version of Landlock that covers cutting a file off.
COVERS_TRUNCATE = 3


@dataclass(frozen=True, kw_only=True)
class Confinement:
    """What is in force while code runs. Limits, the clean environment and the closed input are always.

    None of it makes a sandbox: a fault in the kernel leads out of it.

    Attributes:
        network: Code can make no sockets: it has no network, and reaches no server on this machine either.
        writing: Code writes to no file outside its work folder. Without `namespaces` it can still change the modes and
            times of files that belong to its user.
        reading: Code reads nothing but its work folder, the system's programs and libraries, Python, and `readable`.
        processes: Code can look into, and signal, no processes but its own, and none of them outlives the run. Without
            `proc` it can see that others are there.
        measures: The means that the system allows, of `namespaces`, `proc`, `seccomp`, `landlock`.
    """

    network: bool
    writing: bool
    reading: bool
    processes: bool
    measures: tuple[str, ...] = ()

    @classmethod
    def of(cls, measures: Iterable[str], *, landlock: int = 0, network: bool = False) -> Confinement:
        """What some measures come to.

        Args:
            measures: Those that work.
            landlock: Version of Landlock.
            network: The network is allowed.
        """
        taken = tuple(measures)
        return cls(
            network=SECCOMP in taken and not network,
            writing=NAMESPACES in taken or landlock >= COVERS_TRUNCATE,
            reading=LANDLOCK in taken,
            processes=NAMESPACES in taken,
            measures=taken,
        )

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the attributes that are not in force."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name) is False)

    def require(self, required: bool | Iterable[Measure]) -> None:
        """Make sure that something is in force.

        Args:
            required: Names of attributes; True: all of them; False: none.

        Raises:
            ConfinementError: It is not (a RuntimeError).
        """
        if required is False:
            return
        wanted = set(self.missing if required is True else required)
        missing = [name for name in self.missing if name in wanted]
        if missing:
            raise ConfinementError(missing)

    def __str__(self) -> str:
        lacking = f"; not in force: {', '.join(self.missing)}" if self.missing else ""
        return f"confined by {', '.join(self.measures) or 'limits only'}{lacking}"


def launcher_command(module: str, plan: Plan) -> list[str]:
    """The command of a module of the launcher, which `launcher/__init__.py` tells about."""
    folder = str(Path(__file__).parent)
    start = f"import sys; sys.path.insert(0, {folder!r}); from launcher.{module} import main; main()"
    return [sys.executable, "-I", "-S", "-c", start, plan.to_json()]


async def detect(plan: Plan) -> Confinement:
    """Find out what this system allows, by trying it in processes of its own.

    Args:
        plan: A run; its folder need not exist.
    """
    with tempfile.TemporaryDirectory(prefix="callboard-code-") as folder:
        command = launcher_command("probe", plan._replace(folder=folder))
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={"PATH": os.defpath},
            start_new_session=True,
        )
        answer = (await process.communicate())[0]
    if process.returncode != 0:
        return Confinement.of((), network=plan.network)
    found = json.loads(answer)
    return Confinement.of(found["measures"], landlock=found["landlock"], network=plan.network)
