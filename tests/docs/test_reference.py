"""The generated pages are what the code says now."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from scripts.reference_pages.__main__ import DOCS, pages
from scripts.reference_pages.api import MODULES


@pytest.mark.parametrize(("path", "text"), pages().items(), ids=lambda value: getattr(value, "name", ""))
def test_a_page_is_up_to_date(path: Path, text: str) -> None:
    assert path.read_text(encoding="utf-8") == text, f"docs/{path.name} is old: run scripts/reference"


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_is_there(name: str) -> None:
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    chapter = text.partition(f"## `{name}`\n")[2].partition("\n## ")[0]
    for public in importlib.import_module(name).__all__:
        assert f"- `{public}" in chapter
