from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from callboard.process import supervisor as reloading
from callboard.process.supervisor import Files, Reloader
from tests.helpers.eventually import eventually

APP = "from callboard import App\napp = App('a')\n"


def test_python_files_are_watched_and_others_are_not(tmp_path: Path) -> None:
    for name in ("app.py", "part/of.py", "gone.py", ".venv/x.py", "env/pyvenv.cfg", "env/y.py", "note.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("1\n", encoding="utf-8")
    files = Files(tmp_path)
    assert files.changed() == []
    for name in ("app.py", "part/of.py", ".venv/x.py", "env/y.py", "note.txt", "new.py"):
        (tmp_path / name).write_text("changed\n", encoding="utf-8")
    (tmp_path / "gone.py").unlink()
    assert files.changed() == ["app.py", "gone.py", "new.py", "part/of.py"]
    assert files.changed() == []


@pytest.mark.parametrize(
    ("text", "renewed", "says"),
    [
        (APP + "x = 1\n", 1, "app.py changed: starting the processes anew"),
        (APP + "x = \n", 0, "app.py changed, and what ran goes on: the module 'app' can't be imported"),
        (APP + "1 / 0\n", 0, "ZeroDivisionError"),
        (APP + "@app.agent('new', topics=['t'])\nclass New: ...\n", 0, "what ran goes on"),
        (APP + "raise SystemExit('no key is set')\n", 0, "SystemExit: no key is set at "),
        (APP + "raise SystemExit(0)\n", 0, "SystemExit: 0"),
        (APP + "raise ValueError('first\\nsecond')\n", 0, "ValueError: first second"),
        (APP + "import os\nos._exit(3)\n", 0, "importing app:app ended with exit code 3"),
    ],
)
async def test_a_change_that_can_be_imported_renews(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, renewed: int, says: str
) -> None:
    monkeypatch.setattr(reloading, "LOOK_EVERY", 0.02)
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    notices: list[str] = []
    renewals: list[int] = []
    reloader = Reloader(
        "app:app", (), folder=tmp_path, notice=notices.append, renew=lambda: renewals.append(1)
    )
    task = asyncio.create_task(reloader.run())
    await eventually(lambda: notices)
    (tmp_path / "app.py").write_text(text, encoding="utf-8")
    await eventually(lambda: says in " ".join(notices), what=lambda: notices)
    assert len(renewals) == renewed
    task.cancel()
    await asyncio.wait({task})


async def test_a_new_agent_type_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reloading, "LOOK_EVERY", 0.02)
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    notices: list[str] = []
    reloader = Reloader("app:app", ["old"], folder=tmp_path, notice=notices.append, renew=lambda: None)
    task = asyncio.create_task(reloader.run())
    await eventually(lambda: notices)
    agents = "@app.agent('new')\n@app.agent('old')\nclass New(RoutedAgent): ...\n"
    more = f"print('said', end='')\nfrom callboard import RoutedAgent\n{agents}"
    (tmp_path / "app.py").write_text(APP + more, encoding="utf-8")
    await eventually(lambda: "starting the processes anew" in notices[-1], what=lambda: notices)
    assert notices[1] == "agent types that do not run here: new; start `callboard up` anew for new ones"
    task.cancel()
    await asyncio.wait({task})


async def test_what_runs_goes_on_when_its_agent_type_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reloading, "LOOK_EVERY", 0.02)
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    notices: list[str] = []
    renewals: list[int] = []
    reloader = Reloader(
        "app:app", ["old"], folder=tmp_path, notice=notices.append, renew=lambda: renewals.append(1)
    )
    task = asyncio.create_task(reloader.run())
    await eventually(lambda: notices)
    (tmp_path / "app.py").write_text(APP + "x = 1\n", encoding="utf-8")
    await eventually(lambda: len(notices) > 1)
    assert notices[1] == (
        "app.py changed, and what ran goes on: the app has no agent type old any more; start `callboard up` anew"
    )
    assert not renewals
    task.cancel()
    await asyncio.wait({task})
