"""Names and descriptions of tools."""

from __future__ import annotations

import pytest

from callboard.tools.errors import ToolDeclarationError
from callboard.tools.schema import MAX_DESCRIPTION, check_description, check_name


@pytest.mark.parametrize("name", ["a", "_a", "get_weather", "A9", "x" * 64])
def test_names_that_models_take(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "été", "class", "None", "9a", "a-b", "a b", "a.b", "a\n", "x" * 65, "x" * 200]
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ToolDeclarationError) as caught:
        check_name(name)
    assert str(caught.value).startswith(f"{name[:80]!r} can't be a tool: its name may have a letter")
    assert isinstance(caught.value, ValueError)


def test_a_description_has_1024_characters_at_most() -> None:
    assert check_description("a", "x" * MAX_DESCRIPTION)
    with pytest.raises(ToolDeclarationError, match="1,025 characters"):
        check_description("a", "x" * (MAX_DESCRIPTION + 1))
