from __future__ import annotations

import pytest

from callboard.models.errors import ModelNotFoundError
from callboard.models.info import (
    KNOWN,
    get_info,
    get_token_limit,
    known_model,
    validate_model_info,
    without_version,
)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("gpt-4o", "gpt-4o"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("gpt-4-0613", "gpt-4"),
        ("gpt-4.5-preview", "gpt-4.5-preview"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4"),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet"),
        ("gemini-1.5-pro-002", "gemini-1.5-pro"),
        ("gemini-2.5-pro-preview-05-06", "gemini-2.5-pro"),
        ("o3-mini", "o3-mini"),
        ("o1-preview-2024-09-12", "o1-preview"),
        ("gpt-4.5-preview-2025-02-27", "gpt-4.5-preview"),
    ],
)
def test_versions_do_not_matter(name: str, model: str) -> None:
    assert known_model(name) is KNOWN[model]
    assert get_info(name) == KNOWN[model].info
    assert get_token_limit(name) == KNOWN[model].context


@pytest.mark.parametrize("name", ["gpt-4o-mega", "llama", "", "gpt-40", "my-gpt-4o", "gpt-4o-preview"])
def test_others_are_not_guessed(name: str) -> None:
    for get in (get_info, get_token_limit):
        with pytest.raises(ModelNotFoundError, match="model_info is required"):
            get(name)


def test_the_nearest_name_is_told() -> None:
    with pytest.raises(ModelNotFoundError, match="Did you mean 'gpt-4o'"):
        get_info("gpt4o")


def test_every_row_is_complete() -> None:
    for known in KNOWN.values():
        validate_model_info(known.info)
        assert known.context >= 8_192


def test_an_incomplete_info_is_refused() -> None:
    with pytest.raises(ValueError, match="Missing required field 'function_calling'"):
        validate_model_info({"vision": True})


def test_a_version_is_cut_off_once() -> None:
    assert without_version("gpt-4o-2024-08-06") == "gpt-4o"
    assert without_version("gpt-4o") == "gpt-4o"
