"""Other names for tools."""

from __future__ import annotations

import pytest

from callboard.tools import ToolOverride
from callboard.tools.errors import ToolDeclarationError, UnknownToolError
from callboard.tools.static import Overrides


def test_names_and_descriptions_are_replaced() -> None:
    overrides = Overrides(
        {"a": ToolOverride(name="b", description="new"), "c": ToolOverride(description="only")}
    )
    assert overrides.shown({"name": "a", "description": "old"}) == {"name": "b", "description": "new"}
    assert overrides.shown({"name": "c"}) == {"name": "c", "description": "only"}
    assert overrides.shown({"name": "d", "description": "same"}) == {"name": "d", "description": "same"}
    assert [overrides.own_name(name) for name in ("b", "a", "c", "d")] == ["a", "a", "c", "d"]
    overrides.check(["a", "c"])


def test_one_name_for_two_tools_is_refused() -> None:
    with pytest.raises(ToolDeclarationError, match="used by multiple tools: a, c"):
        Overrides({"a": ToolOverride(name="b"), "c": ToolOverride(name="b")})
    with pytest.raises(ToolDeclarationError, match="conflicts with an existing tool"):
        Overrides({"a": ToolOverride(name="b")}).check(["a", "b"])


def test_two_tools_may_change_names() -> None:
    overrides = Overrides({"a": ToolOverride(name="b"), "b": ToolOverride(name="a")})
    overrides.check(["a", "b"])
    assert [overrides.own_name(name) for name in "ab"] == ["b", "a"]


def test_a_tool_may_not_take_the_name_of_one_that_only_has_another_description() -> None:
    with pytest.raises(ToolDeclarationError, match="conflicts"):
        Overrides({"a": ToolOverride(name="b"), "b": ToolOverride(description="x")}).check(["a", "b"])


def test_an_override_for_no_tool_is_refused() -> None:
    with pytest.raises(UnknownToolError, match="Did you mean 'weather'"):
        Overrides({"wether": ToolOverride(name="b")}).check(["weather"])
