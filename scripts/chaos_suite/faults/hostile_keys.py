"""Keys and ids that are commands of a shell, in everything that is offered for pasting into one."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from callboard import AgentId, TopicId
from callboard.broker import BrokerSettings
from callboard.runtime.runtime import RedisAgentRuntime
from tests.helpers.eventually import eventually

from ..above.beside import Beside, command
from ..above.desk import HOSTILE, MARK, TYPE
from ..site import Site
from .base import Act, Fault, require

COMMANDS: Final = (
    ("status",),
    ("doctor",),
    ("inspect", TYPE),
    ("topics",),
    ("dead", "list", TYPE),
    ("repair",),
    ("runs", "list"),
)
FAKE: Final = '#!/bin/sh\nfor word; do printf \'%s\\0\' "$word"; done >> "$PASTED"\n'
"""A program that writes down its arguments, in the place of `callboard`."""


@dataclass(frozen=True, slots=True)
class HostileKeys(Fault):
    """Publishes under them, pauses them, has them become dead letters, and pastes what is offered."""

    name: ClassVar[str] = "hostile-keys"
    act: ClassVar[Act] = "above"
    summary: ClassVar[str] = (
        "agents' keys and message ids such as `x; touch PWNED #`, of dead letters and pauses; each command that logs, "
        "`status`, `doctor` and others offer is pasted into a shell"
    )
    promise: ClassVar[str] = (
        "the shell runs `callboard` and nothing else, with the key or the id as one argument"
    )
    seconds: ClassVar[float] = 4.0

    async def strike(self, site: Site) -> None:
        async with Beside(site, "desk", "scripts.chaos_suite.above.desk:app") as beside:
            worker = await beside.worker()
            settings = BrokerSettings(namespace=beside.namespace)
            async with RedisAgentRuntime(beside.url, settings=settings) as runtime:
                for key in HOSTILE:
                    await runtime.publish_message(key, TopicId("calls", key), message_id=key)
                log = "it is a dead letter now"
                await eventually(lambda: len(worker.lines(log)) == len(HOSTILE), 20, what=worker.output)
                for key in HOSTILE:
                    await runtime.control.pause(AgentId(TYPE, key), by=key)
            printed = [await command(beside.where, *words) for words in COMMANDS]
            texts = [worker.output(), *printed]
        pasted = _paste(beside.folder, [line for text in texts for line in offered(text)])
        require(not (beside.folder / MARK).exists(), "what was pasted has run")
        for words in ("dead\0show", "resume"):
            found = f"\0{words}\0--namespace\0{beside.namespace}\0{TYPE}/"
            # A line break is shown as an escape, which names another key.
            missing = [key for key in HOSTILE if "\n" not in key and f"{found}{key}\0" not in pasted]
            require(not missing, f"{words!r} is not offered for {missing}")


def offered(text: str) -> Iterator[str]:
    """What a person would copy: what stands between backticks, and the rest of a line from `callboard` on."""
    for line in text.splitlines():
        for found in re.finditer(r"(?<![\w./-])callboard (?=[a-z])", line):
            rest = line[found.start() :]
            if line[: found.start()].endswith("`"):
                # A key may have backticks itself: where the command ends, a person sees and this does not.
                yield from (rest[: end.start()] for end in re.finditer("`", rest))
            else:
                yield rest


def _paste(folder: Path, lines: list[str]) -> str:
    """Runs each line in a shell, in a folder where `callboard` is a fake; all arguments of all calls."""
    program, argv = folder / "callboard", folder / "argv"
    program.write_text(FAKE, "utf-8")
    program.chmod(0o755)
    argv.touch()
    environ = {"PATH": f"{folder}:/usr/bin:/bin", "PASTED": str(argv)}
    for line in lines:
        subprocess.run(["/bin/sh", "-c", line], cwd=folder, env=environ, capture_output=True, check=False)
    return "\0" + argv.read_text("utf-8")
