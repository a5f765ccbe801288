"""Bad use: one clear sentence each, an exit code that is not 0, no traceback unless it is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.processes import ROOT, Process, python
from tests.helpers.servers import free_port

HEAD = """
from pydantic import BaseModel
from callboard import App, MessageContext, RoutedAgent, event

app = App("bad")

class Note(BaseModel):
    text: str = ""

"""

MODULES: dict[str, tuple[str, str]] = {
    "a_subscription_to_no_topic_type": (
        (
            '@app.agent("writer", topics=["no such topic!"])\nclass Writer(RoutedAgent):\n'
            "    @event\n    async def on_note(self, message: Note, ctx: MessageContext) -> None: ...\n"
        ),
        "no such topic!",
    ),
    "a_handler_without_a_context": (
        (
            '@app.agent("writer", topics=["notes"])\nclass Writer(RoutedAgent):\n'
            "    @event\n    async def on_note(self, message: Note) -> None: ...\n"
        ),
        "on_note",
    ),
    "a_handler_that_is_not_async": (
        (
            '@app.agent("writer", topics=["notes"])\nclass Writer(RoutedAgent):\n'
            "    @event\n    def on_note(self, message: Note, ctx: MessageContext) -> None: ...\n"
        ),
        "on_note",
    ),
    "a_handler_without_annotations": (
        (
            '@app.agent("writer", topics=["notes"])\nclass Writer(RoutedAgent):\n'
            "    @event\n    async def on_note(self, message, ctx): ...\n"
        ),
        "on_note",
    ),
    "two_agents_of_one_type": (
        '@app.agent("writer")\nclass Writer(RoutedAgent): ...\n\n@app.agent("writer")\nclass Other(RoutedAgent): ...\n',
        "writer",
    ),
    "a_setting_that_does_not_exist": (
        '@app.agent("writer", max_atempts=3)\nclass Writer(RoutedAgent): ...\n',
        "max_attempts",
    ),
    "a_module_that_imports_what_is_not_there": ("import nothing_like_this\n", "nothing_like_this"),
}


async def _run(folder: Path, *arguments: str) -> tuple[int, str]:
    environ = {"PYTHONPATH": f"{ROOT}:{folder}", "CALLBOARD_CONNECT_TIMEOUT": "1"}
    process = Process(python("-m", "callboard", *arguments), environ)
    try:
        code = await process.ended(within=20)
        return code, process.output().strip()
    finally:
        process.close()


def _is_one_sentence(output: str) -> bool:
    return "Traceback" not in output and 0 < len(output.splitlines()) <= 4


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("command", ["up", "worker"])
async def test_an_app_that_can_not_work(tmp_path: Path, name: str, command: str) -> None:
    source, clue = MODULES[name]
    (tmp_path / f"{name}.py").write_text(HEAD + source)
    code, output = await _run(tmp_path, command, f"{name}:app", "--url", "memory://x")
    assert code != 0
    assert clue in output
    assert _is_one_sentence(output), output


async def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    source, _ = MODULES["two_agents_of_one_type"]
    (tmp_path / "twice.py").write_text(HEAD + source)
    code, output = await _run(tmp_path, "--debug", "up", "twice:app", "--url", "memory://x")
    assert code != 0
    assert "Traceback" in output


@pytest.mark.parametrize(
    ("arguments", "clue"),
    [
        (("up", "no_such_module:app"), "no_such_module"),
        (("up", "examples.counting:nothing"), "nothing"),
        (("worker", "examples.counting:app", "--type", "countre"), "counter"),
        (("up", "examples.counting:app", "--url", "rediss//localhost"), "rediss//localhost"),
        (("up", "examples.counting:app", "--url", "reddis://localhost"), "reddis://localhost"),
        (("worker", "examples.counting:app", "--url", "redis://localhost:port"), "localhost:port"),
        (("worker", "examples.counting:app", "--url", "unix:///no/such/socket"), "/no/such/socket"),
    ],
)
async def test_arguments_that_can_not_work(tmp_path: Path, arguments: tuple[str, ...], clue: str) -> None:
    code, output = await _run(tmp_path, *arguments)
    assert code != 0
    assert clue in output
    assert "Traceback" not in output
    assert len(output.splitlines()) <= 6, output


@pytest.mark.parametrize("command", ["up", "worker"])
async def test_an_unreachable_server(tmp_path: Path, command: str) -> None:
    url = f"redis://127.0.0.1:{free_port()}"
    code, output = await _run(tmp_path, command, "examples.counting:app", "--url", url)
    assert code != 0
    assert url in output
    assert _is_one_sentence(output), output


@pytest.mark.parametrize("arguments", [("worker", "examples.counting:app"), ("doctor",), ("status",)])
@pytest.mark.parametrize(
    "url", ["redis://:geheim@127.0.0.1:{}", "redis+sentinel://127.0.0.1:{}/mymaster?sentinel_password=geheim"]
)
async def test_the_password_of_a_url_is_not_shown(
    tmp_path: Path, url: str, arguments: tuple[str, ...]
) -> None:
    code, output = await _run(tmp_path, *arguments, "--url", url.format(free_port()))
    assert code != 0
    assert "127.0.0.1" in output
    assert "geheim" not in output
