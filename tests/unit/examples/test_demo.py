"""The documents that `callboard demo` reads by default."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.digest import demo
from examples.digest.documents import prepare

ROOT = Path(__file__).parents[3]


def test_a_checkout_gives_its_readme_and_docs() -> None:
    assert demo.own_documents() == [ROOT / "README.md", ROOT / "docs"]


def test_an_installed_package_gives_the_text_that_comes_with_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(demo, "ROOT", tmp_path)
    assert demo.own_documents() == [ROOT / "examples" / "digest" / "sample.md"]
    prepared = prepare(demo.own_documents())
    assert prepared.title == "How a message is handled once"
    assert prepared.left_out == []
