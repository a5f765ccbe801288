"""Descriptions of parameters in docstrings."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import pytest
from pydantic import BaseModel

from callboard import CancellationToken
from callboard.tools import FunctionTool
from callboard.tools.schema import described_parameters
from tests.helpers.schemas import parameters

GOOGLE = """Does something.

    Args:
        city: Name of the city,
            in English.
        days (int): How many: at least 1.

        **options: More of it.
        empty:

    Returns:
        word: not a parameter.
    """


def test_the_args_of_google_style_are_read() -> None:
    assert described_parameters(GOOGLE) == {
        "city": "Name of the city, in English.",
        "days": "How many: at least 1.",
        "options": "More of it.",
    }


@pytest.mark.parametrize(
    "docstring", [None, "", "Only a line.", "Args:", "Args: one, two", "Args:\n\nNo: more."]
)
def test_without_a_section_there_is_nothing(docstring: str | None) -> None:
    assert described_parameters(docstring) == {}


class Unit(Enum):
    CELSIUS = "C"


class Place(BaseModel):
    """Somewhere."""

    title: str


def forecast(
    city: str,
    place: Place,
    days: Annotated[int, "from Annotated"] = 1,
    unit: Unit = Unit.CELSIUS,
    plain: bool = False,
    *,
    token: CancellationToken,
) -> str:
    """The weather.

    Args:
        city: Name of the city.
        days: Not this one.
        unit: Of the answer.
        token: Never shown.
    """
    return "sun"


def test_a_schema_has_descriptions_and_no_noise() -> None:
    tool = FunctionTool(forecast)
    assert tool.description == "The weather."
    assert parameters(tool.schema)["properties"] == {
        "city": {"type": "string", "description": "Name of the city."},
        "place": {
            "type": "object",
            "description": "Somewhere.",
            "properties": {"title": {"type": "string"}},
            "required": ["title"],
        },
        "days": {"type": "integer", "description": "from Annotated", "default": 1},
        "unit": {"type": "string", "description": "Of the answer.", "enum": ["C"], "default": "C"},
        "plain": {"type": "boolean", "default": False},
    }


def test_strict_schemas_are_described_as_well() -> None:
    def search(query: str) -> str:
        """Searches.

        Args:
            query: What to look for.
        """
        return query

    tool = FunctionTool(search, strict=True)
    assert parameters(tool.schema)["properties"]["query"] == {
        "type": "string",
        "description": "What to look for.",
    }
