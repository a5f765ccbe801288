"""docs/recipes.md: each question leads to a place with code, and that code is run by the tests of its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .blocks import blocks_of

DOCS = Path(__file__).parents[2] / "docs"
ROWS = re.findall(r"^\| (.+\?) \| (.+) \|$", (DOCS / "recipes.md").read_text("utf-8"), re.MULTILINE)


def _slug(heading: str) -> str:
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def _lines_of(page: Path, anchor: str) -> range:
    """The lines of a section, up to the next heading of its level; without an anchor the whole page."""
    lines = page.read_text("utf-8").splitlines()
    if not anchor:
        return range(1, len(lines) + 1)
    found: list[tuple[int, int, str]] = []
    is_code = False
    for number, line in enumerate(lines, 1):
        is_code ^= line.startswith("```")
        if not is_code and (match := re.match(r"^(#{1,6}) (.+)$", line)):
            found.append((number, len(match[1]), _slug(match[2])))
    start, level = next((number, level) for number, level, slug in found if slug == anchor)
    end = next((number for number, its, _ in found if number > start and its <= level), len(lines) + 1)
    return range(start, end)


def test_there_are_enough() -> None:
    assert len(ROWS) >= 32
    assert len({question for question, _ in ROWS}) == len(ROWS)


@pytest.mark.parametrize(("question", "answer"), ROWS, ids=[question for question, _ in ROWS])
def test_a_question_leads_to_code_that_is_tested(question: str, answer: str) -> None:
    links = re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", answer)
    assert links, question
    for target, anchor in links:
        page = DOCS / (target or "recipes.md")
        lines = _lines_of(page, anchor)
        blocks = [block for block in blocks_of(page) if block.line in lines]
        if blocks or "|" in "".join(page.read_text("utf-8").splitlines()[lines.start : lines.stop - 1]):
            return
    pytest.fail(f"{question}: no code and no table behind any of its links")
