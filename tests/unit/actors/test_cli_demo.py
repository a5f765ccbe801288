"""What `callboard demo` reads when it is told nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.cli import demo
from actors.demo.documents import prepare

ROOT = Path(__file__).parents[3]


def test_a_checkout_gives_its_readme_and_docs() -> None:
    assert demo.own_documents() == [ROOT / "README.md", ROOT / "docs"]


def test_an_installed_package_gives_the_text_that_comes_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sample = Path(demo.__file__).with_name("sample.md").read_text("utf-8")
    folder = tmp_path / "actors" / "cli"
    folder.mkdir(parents=True)
    (folder / "sample.md").write_text(sample, "utf-8")
    monkeypatch.setattr(demo, "__file__", str(folder / "demo.py"))
    assert demo.own_documents() == [folder / "sample.md"]
    prepared = prepare(demo.own_documents())
    assert prepared.title == "How a message is handled once"
    assert prepared.left_out == []
