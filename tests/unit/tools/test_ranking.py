"""Which tools fit a text."""

from __future__ import annotations

from callboard.tools.ranking import rank
from callboard.tools.schema import ToolSchema

SCHEMAS: list[ToolSchema] = [
    {"name": "searchWeb", "description": "Searches the web for pages."},
    {"name": "read_file", "description": "Reads a file from the disk."},
    {"name": "write_file", "description": "Writes a text to a file.", "parameters": {"type": "object", "properties": {
        "path": {"type": "string", "description": "folder and name"}, "odd": True}}},
    {"name": "wetter", "description": "Das Wetter für eine Stadt"},
]  # fmt: skip


def test_names_count_more_than_descriptions_and_rare_words_more_than_common_ones() -> None:
    assert rank("write a file", SCHEMAS)[0] == "write_file"
    assert rank("read", SCHEMAS)[0] == "read_file"
    assert set(rank("file", SCHEMAS)) == {"read_file", "write_file"}


def test_words_are_found_in_humps_arguments_and_other_forms() -> None:
    assert rank("web", SCHEMAS) == ["searchWeb"]
    assert rank("folder", SCHEMAS)[0] == "write_file"
    assert rank("searching pages", SCHEMAS) == ["searchWeb"]
    assert rank("STADT", SCHEMAS) == ["wetter"]


def test_little_words_and_nothing_find_nothing() -> None:
    assert rank("the a to of", SCHEMAS) == []
    assert rank("", SCHEMAS) == []
    assert rank("file", []) == []
