"""Worker processes of another application on an act's server, in a namespace that the checker does not judge."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from tests.helpers.processes import ROOT, Process, python

from ..fleet import STARTS_WITHIN
from ..site import Site

COMMAND_WITHIN = 30.0  # seconds


class Beside:
    """The processes, which are gone when the block ends; a traceback in what they print is a problem then.

    Args:
        site: whose server they use.
        namespace: of their own.
        target: the application, `module:app`.
        environ: further variables of them.
    """

    def __init__(
        self, site: Site, namespace: str, target: str, environ: Mapping[str, str] | None = None
    ) -> None:
        self.namespace = namespace
        self.url = site.server.url
        self.folder = Path(site.folder) / namespace
        self.folder.mkdir(exist_ok=True)
        self._target = target
        self._environ = {**site.environ, **(environ or {})}
        self._all: list[Process] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        output = self.output()
        for process in self._all:
            process.close()
        (self.folder / "workers.log").write_text(output, "utf-8")
        if kind is None and "Traceback" in output:
            raise RuntimeError(f"a traceback in {self.namespace}: {output[output.index('Traceback') :]}")

    async def worker(self, *types: str) -> Process:
        """One that works, for these agent types; none: for all."""
        words = [word for agent_type in types for word in ("--type", agent_type)]
        process = Process(
            python("-m", "callboard", "worker", self._target, *words, *self.where), self._environ
        )
        self._all.append(process)
        await process.says("works as", STARTS_WITHIN)
        return process

    @property
    def where(self) -> tuple[str, ...]:
        """The options that every command takes."""
        return ("--url", self.url, "--namespace", self.namespace)

    def output(self) -> str:
        """Of all processes so far."""
        return "\n".join(process.output() for process in self._all)


async def command(where: tuple[str, ...], *words: str, cwd: Path = ROOT) -> str:
    """What a command prints, on both of its outputs."""
    process = Process(python("-m", "callboard", *words, *where), {"PYTHONPATH": str(ROOT)}, cwd)
    try:
        await process.ended(COMMAND_WITHIN)
        return process.output()
    finally:
        process.close()


async def as_json(where: tuple[str, ...], *words: str) -> Any:
    """The same of a command that prints JSON."""
    return json.loads(await command(where, *words, "--json"))


async def soon_after(process: Process, seconds: float) -> None:
    """Kills a process with -9, a moment later."""
    await asyncio.sleep(seconds)
    process.kill()
