"""Results of tools."""

from __future__ import annotations

import base64

import pytest

from callboard.broker import MessageRegistry
from callboard.memory.llm_messages import Image
from callboard.tools import FunctionTool, ImageResultContent, TextResultContent, ToolResult
from callboard.tools.errors import ToolReturnError
from callboard.tools.workbench import MAX_ERROR, error_result, result_of

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
IMAGE = Image.from_bytes(PIXEL)
ANY = FunctionTool(lambda: 1, "any", name="any")


def test_images_become_parts() -> None:
    assert result_of(ANY, "any", IMAGE).result == [ImageResultContent(content=IMAGE)]
    mixed = result_of(ANY, "any", ["before", IMAGE, 5])
    assert [part.type for part in mixed.result] == [
        "TextResultContent",
        "ImageResultContent",
        "TextResultContent",
    ]
    assert mixed.to_text(replace_image="[image]") == "before\n[image]\n5"
    assert mixed.to_text() == "before\n[Image: image/png, 70 bytes]\n5"
    assert result_of(ANY, "any", ["no", "image"]).to_text() == '["no","image"]'


def test_a_result_stays_one_under_the_name_it_was_called_by() -> None:
    made = ToolResult(name="inner", result=[TextResultContent(content="x")], is_error=True)
    assert result_of(ANY, "outer", made) == made.model_copy(update={"name": "outer"})


def test_what_has_no_text_is_an_error() -> None:
    with pytest.raises(ToolReturnError):
        result_of(ANY, "any", object())


def test_long_errors_are_cut_and_odd_characters_written_out() -> None:
    text = error_result("t", ValueError("x" * 50_000)).to_text()
    assert len(text) < MAX_ERROR + 100
    assert text.endswith("xxx... [cut here: 40,112 of 50,012 characters are missing]")
    assert error_result("t", ValueError("\ud800")).to_text() == "ValueError: \\ud800"
    assert error_result("t", ValueError()).to_text() == "ValueError"


def test_a_result_crosses_the_bus_and_json() -> None:
    made = result_of(ANY, "any", ["a", IMAGE])
    registry = MessageRegistry()
    entry = registry.entry_for(made)
    assert registry.decode(entry.name, entry.version, entry.encode(made)) == made
    assert ToolResult.model_validate_json(made.model_dump_json()) == made
