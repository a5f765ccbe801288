"""Writes the pages; tests/docs/test_reference.py looks whether that was forgotten."""

from __future__ import annotations

from pathlib import Path

from . import api, settings

DOCS = Path(__file__).parents[2] / "docs"


def pages() -> dict[Path, str]:
    """Every generated page and what it has to hold."""
    return {DOCS / "settings.md": settings.page(), DOCS / "api.md": api.page()}


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote docs/{path.name}")
