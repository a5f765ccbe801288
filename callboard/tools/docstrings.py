"""What the docstring of a function says about its parameters, in Google style."""

from __future__ import annotations

import inspect
import re
from typing import Final

HEADS: Final = frozenset({"Args:", "Arguments:", "Parameters:"})
ENTRY: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")


def described_parameters(docstring: str | None) -> dict[str, str]:
    """Parameter -> its description, in one line; of those that an ``Args:`` section describes.

    Args:
        docstring: Of a function, as it is written; None: it has none.
    """
    found: dict[str, list[str]] = {}
    depth: int | None = None  # of the names in the section; deeper lines go on with a description
    current: list[str] = []
    for line in _section(inspect.cleandoc(docstring or "")):
        indent = len(line) - len(line.lstrip())
        depth = indent if depth is None else depth
        entry = ENTRY.fullmatch(line.strip()) if indent <= depth else None
        if entry is not None:
            current = found[entry[1]] = [entry[2]]
        else:
            current.append(line.strip())
    return {name: " ".join(filter(None, lines)) for name, lines in found.items() if any(lines)}


def _section(text: str) -> list[str]:
    """The lines below ``Args:`` that belong to it."""
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines, 1) if line in HEADS), len(lines))
    section: list[str] = []
    for line in lines[start:]:
        if line and not line[0].isspace():
            break
        if line.strip():
            section.append(line)
    return section
