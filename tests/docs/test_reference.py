"""The generated pages are what the code says now."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.reference_pages.__main__ import DOCS, pages
from scripts.reference_pages.public import FIRST, MODULES, SPECIAL, UNLOADED, public_names

from .blocks import blocks_of

ROOT = DOCS.parent
LISTED = [*MODULES, *SPECIAL, *UNLOADED]
# The demo is what the command `callboard demo` runs, and shows the processes with the command line's own means.
INSIDE = ROOT / "examples" / "digest"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
EXAMPLES = [path for path in sorted((ROOT / "examples").rglob("*.py")) if INSIDE not in path.parents]


@pytest.mark.parametrize(("path", "text"), pages().items(), ids=lambda value: getattr(value, "name", ""))
def test_a_page_is_up_to_date(path: Path, text: str) -> None:
    assert path.read_text(encoding="utf-8") == text, f"docs/{path.name} is old: run scripts/reference"


@pytest.mark.parametrize("name", LISTED)
def test_every_public_name_is_there(name: str) -> None:
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    chapter = text.partition(f"## `{name}`\n")[2].partition("\n## ")[0]
    assert public_names(name)
    for public in public_names(name):
        assert f"- `{public}" in chapter


@pytest.mark.parametrize("name", MODULES)
def test_a_newcomer_is_told_which_names_come_first(name: str) -> None:
    assert 1 <= len(FIRST[name]) <= 10
    assert set(FIRST[name]) <= set(public_names(name))


def _imported(code: str) -> Iterator[str]:
    """Every name of ours that is imported, with its module."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.partition(".")[0] == "callboard")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "callboard":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", [*PAGES, *EXAMPLES], ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_and_examples_import_what_is_listed(path: Path) -> None:
    """A stranger who copies a block must not depend on what may change without notice."""
    if path.suffix == ".py":
        codes = [path.read_text("utf-8")]
    else:
        codes = [block.text for block in blocks_of(path) if block.language == "python"]
    listed = {*LISTED, *(f"{module}.{name}" for module in LISTED for name in public_names(module))}
    assert [name for code in codes for name in _imported(code) if name not in listed] == []
