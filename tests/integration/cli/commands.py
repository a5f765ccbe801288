"""Running `callboard` as a person would: in a process of its own, in a folder with an app."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.helpers.warm_commands import warm_commands

ROOT = Path(__file__).parents[3]
PATIENCE = (
    50.0  # seconds until a test has failed: starting a process takes many of them where twenty others start
)

APP = """
import asyncio, os, time
from pydantic import BaseModel
from callboard import App, MessageContext, RoutedAgent, event, rpc

class Job(BaseModel):
    name: str
    seconds: float = 0.0
    times: int = 1

class Ask(BaseModel):
    say: str = "hello"

class Answer(BaseModel):
    said: str
    jobs: int

app = App("shop")
other = 3

@app.agent("clerk", topics=["jobs"])
class Clerk(RoutedAgent):
    class State(BaseModel):
        jobs: int = 0

    @event
    async def on_job(self, message: Job, ctx: MessageContext) -> None:
        if message.name == "exit":
            os._exit(7)
        if message.name == "block":
            time.sleep(message.seconds)
        print(f"begins {message.name}", flush=True)
        await asyncio.sleep(message.seconds * float(os.environ.get("PACE", "1")))
        self.state.jobs += 1
        print(f"ends {message.name}", flush=True)

    @rpc
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
        if message.say == "fail":
            raise ValueError("no such word")
        if message.say == "wait":
            await asyncio.sleep(60)
        return Answer(said=message.say, jobs=self.state.jobs)

@app.agent("guard", topics=["alarms"])
class Guard(RoutedAgent):
    @event
    async def on_job(self, message: Job, ctx: MessageContext) -> None:
        raise RuntimeError("this guard always fails")
"""

EACH = """
import contextlib, io, json, sys
from callboard.cli.main import main

ended = []
for command in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(command)
        except SystemExit as end:
            ended.append((end.code, out.getvalue(), err.getvalue()))
print(json.dumps(ended))
"""


class ShopFolder:
    """A folder with the app above in shop.py, and an environment that leads to one server.

    Args:
        folder: Where.
        url: Of the server; None: the embedded one of the folder.
    """

    def __init__(self, folder: Path, url: str | None) -> None:
        self.folder = folder
        (folder / "shop.py").write_text(APP, encoding="utf-8")
        hidden = ("CALLBOARD_", "REDIS_URL", "COLUMNS")
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        self.environ |= {"PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
        if url is not None:
            self.environ["CALLBOARD_URL"] = url

    def run(
        self, *arguments: str, stdin: str = "", timeout: float = PATIENCE
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end."""
        return warm_commands().run(arguments, self.folder, self.environ, stdin, timeout)

    def run_each(self, *commands: Sequence[str]) -> list[subprocess.CompletedProcess[str]]:
        """Runs commands one after the other in one process: starting one takes longer than most of them do."""
        done = subprocess.run(
            [sys.executable, "-P", "-c", EACH, json.dumps(commands)],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found = zip(commands, json.loads(done.stdout), strict=True)
        return [subprocess.CompletedProcess(list(command), *each) for command, each in found]

    def out(self, *arguments: str, stdin: str = "") -> str:
        """Its output; it has to succeed."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @staticmethod
    def command(*arguments: str) -> list[str]:
        return [sys.executable, "-P", "-m", "callboard", *arguments]

    @contextlib.contextmanager
    def started(self, *arguments: str) -> Iterator[Running]:
        """Runs a command beside the test; it is killed in the end if it still runs."""
        log = self.folder / f"{arguments[0]}-{time.monotonic_ns()}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                self.command(*arguments),
                cwd=self.folder,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        running = Running(process, log)
        try:
            yield running
        finally:
            process.kill()
            process.wait()
            for pid in processes_in(self.folder):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


class Running:
    """A command that runs."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def text(self) -> str:
        """Its output so far, on stdout and stderr."""
        return self._log.read_text(encoding="utf-8")

    def shows(self, text: str, times: int = 1, within: float = PATIENCE) -> None:
        """Waits until it wrote something."""
        wait_for(lambda: self.text.count(text) >= times, within, lambda: f"no {text!r} in:\n{self.text}")

    def ends(self, within: float = PATIENCE) -> int:
        """Waits for its end; gives the exit code."""
        return self.process.wait(within)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


def wait_for(
    condition: Callable[[], object], within: float = PATIENCE, what: Callable[[], str] = str
) -> None:
    """Looks again and again until `condition()` is true; `what` explains the failure."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.02)


def processes_in(folder: Path, having: str = "callboard") -> list[int]:
    """Pids of the processes whose current folder it is and whose command has `having` in it."""
    import psutil

    def matches(process: psutil.Process) -> bool:
        # That of another test may be too deep a folder for the system to name.
        with contextlib.suppress(psutil.Error, OSError):
            return process.cwd() == str(folder) and having in " ".join(process.cmdline())
        return False

    return [process.pid for process in psutil.process_iter() if matches(process)]


def workers_in(folder: Path) -> list[int]:
    """Pids of the worker processes that belong to a folder."""
    return processes_in(folder, "callboard worker")
