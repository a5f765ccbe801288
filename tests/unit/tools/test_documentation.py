"""Tools as Markdown."""

from __future__ import annotations

from enum import Enum
from typing import Literal

from pydantic import BaseModel

from callboard.tools import FunctionTool
from callboard.tools.dynamic import document


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Tree(BaseModel):
    children: list[Tree]


class Address(BaseModel):
    city: str


def paint(
    colour: Colour,
    home: Address,
    tree: Tree,
    sizes: list[int],
    kind: Literal["flat"],
    name: str | None = None,
) -> None:
    """Paints."""


def test_every_kind_of_argument_has_a_few_words() -> None:
    assert document(FunctionTool(paint).schema, "More about it.") == "\n".join(
        [
            "# paint",
            "",
            "Paints.",
            "",
            "More about it.",
            "",
            "Arguments:",
            '- `colour` (one of "red", "blue", required)',
            "- `home` (object with city, required)",
            "- `tree` (Tree, required)",
            "- `sizes` (list of integer, required)",
            '- `kind` ("flat", required)',
            "- `name` (string or null, default null)",
        ]
    )


def test_a_tool_that_says_nothing() -> None:
    assert document({"name": "x"}) == "# x\n\nNo description.\n\nIt takes no arguments."
    assert "- `a` (anything)" in document(
        {"name": "x", "parameters": {"type": "object", "properties": {"a": {}}}}
    )
