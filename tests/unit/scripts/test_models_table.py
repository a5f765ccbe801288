"""The script that compares the table of models with a published one. The sources are made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from callboard.models.info import TABLE, read_table
from scripts.models_table import changes, main, read, written

MODELS_DEV = {
    "acme": {
        "models": {
            "ant": {
                "tool_call": True,
                "structured_output": False,
                "modalities": {"input": ["text", "image"]},
                "limit": {"context": 9000, "output": 100},
            },
            "new": {"limit": {"context": 5}},
        }
    }
}
LITELLM = {
    "sample_spec": {"mode": "one of: chat, embedding"},
    "acme/ant": {"mode": "chat", "max_input_tokens": 9000, "supports_function_calling": True},
    "picture": {"mode": "image_generation"},
    "new": {"mode": "chat", "max_input_tokens": 5, "supports_vision": True},
}
LISTED = {
    "object": "list",
    "data": [
        {
            "id": "acme/ant",
            "context_length": 9000,
            "architecture": {"input_modalities": ["text", "image"]},
            "supported_parameters": ["tools", "response_format"],
        },
        {"id": "new", "max_model_len": 5},
    ],
}
ANT = {"family": "ant", "context": 8000, "can": "schema systems"}


@pytest.mark.parametrize(
    ("source", "ant", "new"),
    [
        (MODELS_DEV, (9000, "vision tools systems"), (5, "")),
        (LITELLM, (8000, "tools schema systems"), (5, "vision")),
        (LISTED, (9000, "vision tools json systems"), (5, "")),
    ],
)
def test_what_a_source_says_is_taken_and_the_rest_stays(
    source: dict[str, Any], ant: tuple[int, str], new: tuple[int, str]
) -> None:
    other = changes({"ant": ANT, "bee": ANT}, read(json.dumps(source)), ["new"])
    assert other == {
        "ant": {"family": "ant", "context": ant[0], "can": ant[1]},
        "new": {"family": "unknown", "context": new[0], "can": new[1]},
    }


@pytest.mark.parametrize("text", ["[]", '{"a": 1}', '{"data": [3]}', "no", '{"a": {"models": []}}'])
def test_another_form_is_refused_in_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"neither models.dev's|Expecting value"):
        read(text)


def test_our_table_is_written_as_it_is() -> None:
    table = json.loads(TABLE.read_text("utf-8"))
    text = written(table, table["models"], table["of"], table["source"])
    assert text == TABLE.read_text("utf-8")


def test_a_table_of_ones_own_is_made_and_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, own = tmp_path / "a source.json", tmp_path / "my models.json"
    source.write_text(json.dumps(LISTED))
    given = [str(source), "--table", str(own), "--add", "ant"]
    assert main(given) == 0
    assert not own.exists()
    assert main([*given, "--write", "--named", "our router", "--of", "2026-11-27"]) == 0
    assert (
        capsys.readouterr()
        .out.splitlines()[0]
        .startswith('ant: null -> {"family": "unknown", "context": 9000')
    )
    assert read_table(own)["ant"].info["vision"]
    assert json.loads(own.read_text())["source"] == "our router"


@pytest.mark.parametrize("given", [["--write"], ["--add", "nobody"]])
def test_what_is_missing_is_said(
    tmp_path: Path, given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source.json"
    source.write_text(json.dumps(LISTED))
    with pytest.raises(SystemExit):
        main([str(source), *given])
    said = capsys.readouterr().err
    assert ("--write needs --named" if given == ["--write"] else "no model 'nobody'") in said
