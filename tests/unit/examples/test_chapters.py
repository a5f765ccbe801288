from __future__ import annotations

import os

import pytest

from examples import chapters


async def test_every_chapter_is_written_twice_and_bound_together(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CALLBOARD_URL", f"memory://chapters-{os.urandom(4).hex()}")
    monkeypatch.setattr("sys.argv", ["chapters", "Tea"])
    await chapters.main()
    said = capsys.readouterr().out
    assert said.count("examples.chapters.Writer") == 2 * len(chapters.CHAPTERS)
    first, second = said.split("--- examples.chapters.Binder \n")[1:]
    assert first.splitlines()[:3] == [f"About Tea: {name}, at length." for name in chapters.CHAPTERS]
    assert second.splitlines()[:3] == [f"{name}, at length.!" for name in chapters.CHAPTERS]
    assert "--- examples.chapters.Reviewer \n" in said


def test_each_role_is_an_agent_type_of_the_app() -> None:
    assert {one.type: one.processes for one in chapters.app} == {
        "Editor": 1,
        "Writer": 3,
        "Binder": 1,
        "Reviewer": 1,
    }
