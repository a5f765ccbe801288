"""The tokens of a model in a folder, counted without loading the model."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from callboard.foundation.errors import MissingPackageError
from callboard.memory.errors import ModelUnsupportedError

from .limit import TextLimit

DEFAULT_TOKENS: Final = 512
ENDS: Final = 2  # tokens that the model puts around a text


def limit_of_folder(folder: Path) -> TextLimit:
    """The longest text that the model of a folder reads whole.

    Raises:
        ModelUnsupportedError: there is no tokenizer.json.
        MissingPackageError: the package tokenizers is not installed.
    """
    tokenizer = load_tokenizer(folder)
    return TextLimit(
        longest_of(folder) - ENDS, lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
    )


def longest_of(folder: Path) -> int:
    """Tokens that the model reads, those at the ends included."""
    path = folder / "sentence_bert_config.json"
    if not path.is_file():
        return DEFAULT_TOKENS
    return int(read_json(folder, path.name).get("max_seq_length") or DEFAULT_TOKENS)


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a folder, a Tokenizer of the package tokenizers that cuts nothing off."""
    file = file_in(folder, "tokenizer.json")
    tokenizer = package("tokenizers").Tokenizer.from_file(str(file))
    # The lengths in the file are for training; sentence_bert_config.json has the limit.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def read_json(folder: Path, name: str) -> dict[str, Any]:
    """A file of settings."""
    found: dict[str, Any] = json.loads(file_in(folder, name).read_text("utf-8"))
    return found


def file_in(folder: Path, name: str) -> Path:
    """A file that a model needs; raises ModelUnsupportedError when it is not there."""
    path = folder / name
    if not path.is_file():
        raise ModelUnsupportedError(str(folder), f"it has no {name}")
    return path


def package(name: str) -> Any:
    """A module of the extra `memory`; raises MissingPackageError when it is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise MissingPackageError(name.partition(".")[0], "memory") from None
