from __future__ import annotations

import asyncio
import json
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from callboard import App, MessageContext, RoutedAgent, TopicId, event
from callboard.broker import BrokerSettings
from callboard.broker.redis.operations.inspect import overview
from callboard.runtime import lifecycle as loop_watch
from callboard.runtime.lifecycle import LoopWatch, handler_line
from tests.helpers.eventually import eventually


async def test_a_blocked_loop_is_told_with_its_handler_and_shown(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, blocked_after = App("blocking"), loop_watch.BLOCKED_AFTER

    def told() -> list[str]:
        """Of this handler; a machine that stands still blocks the loop as well."""
        said = [record.getMessage() for record in caplog.records]
        return [text for text in said if "stood still" in text and "blocker/ada" in text]

    @app.agent("blocker", topics=["blocks"])
    class Blocker(RoutedAgent):
        @event
        async def on_text(self, message: str, ctx: MessageContext) -> None:
            await self.help(time.monotonic() + 30)

        async def help(self, until: float) -> None:
            while not told() and time.monotonic() < until:
                time.sleep(0.01)  # noqa: ASYNC251 - what it is about
            time.sleep(0.3)  # noqa: ASYNC251 - some beats more
            monkeypatch.setattr(loop_watch, "BLOCKED_AFTER", 3600.0)  # what comes now is not shown instead

    async with app.running(
        url="memory://blocked", settings=BrokerSettings(beat_every=0.1, lease=2)
    ) as runtime:
        await runtime.publish_message("go", TopicId("blocks", "ada"))
        await eventually(lambda: runtime.handled, within=40)
        (worker,) = (await overview(runtime.transport)).workers
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    line = 1 + next(number for number, text in enumerate(lines) if "self.help(" in text)
    assert len(told()) == 1, "once, not with every beat"
    assert f"blocker/ada handles str, line {line} of test_loop_watch.py" in told()[0]
    assert "asyncio.to_thread" in told()[0]
    assert worker.blocked is not None
    assert worker.blocked.what == f"blocker/ada handles str, line {line} of test_loop_watch.py"
    assert blocked_after <= worker.blocked.seconds < 40


async def test_a_loop_that_answers_is_not_blocked() -> None:
    watch = LoopWatch(asyncio.get_running_loop(), lambda task: "")
    for _ in range(3):
        assert await asyncio.to_thread(watch.look) == ""
        await asyncio.sleep(0)


async def test_what_blocks_need_be_no_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_watch, "BLOCKED_AFTER", 0.0)
    watch = LoopWatch(asyncio.get_running_loop(), lambda task: "")
    seen: list[str] = []

    def look_twice() -> None:
        watch.look()
        time.sleep(0.05)
        seen.append(watch.look())

    thread = threading.Thread(target=look_twice)
    thread.start()
    thread.join()
    assert seen[0].endswith(" something that is no handler")
    assert json.loads(seen[0].split()[0]) >= 0


def _stopped_in(*files: str | Path) -> FrameType:
    """A thread whose calls went through these files, the outermost first."""
    inner = sys._getframe
    for file in reversed(files):
        names = {"inner": inner}
        exec(compile("def call(*_):\n    return inner(0)", str(file), "exec"), names)
        inner = names["call"]
    frame = inner(0)
    assert frame.f_code.co_filename == str(files[-1])
    return frame


OURS = Path(loop_watch.__file__).parent / "host.py"
BROKER = OURS.parents[1] / "broker" / "envelope.py"


def test_the_line_is_the_users_and_not_that_of_who_is_called_with_the_message(tmp_path: Path) -> None:
    mine, package = tmp_path / "app.py", tmp_path / "site-packages" / "models.py"
    assert handler_line(_stopped_in(OURS, mine, tmp_path / "helper.py", package)) == "line 2 of app.py"
    assert handler_line(_stopped_in(mine, OURS, BROKER, asyncio.__file__)) == ""
    assert handler_line(_stopped_in(OURS, package)) == ""


def test_a_folder_that_was_deleted_costs_no_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> str:
        raise FileNotFoundError("the current folder")

    monkeypatch.setattr("os.getcwd", gone)
    assert handler_line(_stopped_in(OURS, "relative_and_unknown.py")) == "line 2 of relative_and_unknown.py"


def _through(file: Path, then: Callable[[], object]) -> Callable[[], object]:
    """Something that calls `then` from the second line of this file."""
    names: dict[str, Any] = {}
    exec(compile("def call(then):\n    return then()\n", file, "exec"), names)
    return partial(names["call"], then)


def test_the_line_of_the_handler_is_not_one_of_an_installed_package() -> None:
    """As the command line runs a worker: our code, a package that calls our code again, and then the handler."""
    ours = OURS.parents[1] / "cli" / "main.py"
    installed = Path(sysconfig.get_path("purelib")) / "typer" / "main.py"
    handler = _through(Path.cwd() / "shop.py", lambda: handler_line(sys._getframe()))
    assert _through(ours, _through(installed, _through(ours, handler)))() == "line 2 of shop.py"
