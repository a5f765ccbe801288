"""Backup and restore as docs/production.md has it: an app goes on from a copy, in an empty folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from .commands import ShopFolder


def test_an_app_goes_on_from_a_copy_in_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    first = ShopFolder(tmp_path / "first", None)
    try:
        with first.started("worker", "shop:app", "--type", "clerk") as worker:
            first.out("publish", "shop:app", "jobs", "Job", "name=one", "--key", "ada")
            worker.shows("ends one")
        first.out("publish", "shop:app", "jobs", "Job", "name=two", "--key", "ada")
        first.out(
            "publish", "shop:app", "jobs", "Job", "name=later", "--key", "ada", "--delay", "1h", "--id", "x"
        )
    finally:
        first.run("server", "stop")
    second = ShopFolder(tmp_path / "second", None)
    shutil.copytree(first.folder / ".callboard", second.folder / ".callboard", symlinks=True)
    shutil.rmtree(first.folder)
    try:
        with second.started("worker", "shop:app", "--type", "clerk") as worker:
            worker.shows("ends two")
            assert "ends one" not in worker.text
            said = second.out("ask", "shop:app", "clerk/ada", "Ask")
            assert "jobs=2" in said
            status = json.loads(second.out("status", "shop:app", "--json"))
            assert status["delayed"] == 1
            repair = second.run("repair", "shop:app")
            assert repair.returncode == 0, repair.stdout + repair.stderr
    finally:
        second.run("server", "stop")
