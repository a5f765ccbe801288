"""Counts of tokens: exact where a tokenizer is at hand, else an estimate. Nothing is downloaded.

Source of the sizes around a text: OpenAI's cookbook on counting tokens.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import tempfile
from collections.abc import Mapping, Sequence, Sized
from pathlib import Path
from typing import Any, Final, Protocol

from callboard.models.family import ModelFamily

TOKENS_PER_MESSAGE: Final = 3  # role and separators
TOKENS_FOR_REPLY: Final = 3  # every answer begins with them
TOKENS_PER_TOOL: Final = 8  # around the schema of a tool
TOKENS_PER_IMAGE: Final = 765  # 1024 x 1024 pixels in high detail: 85, and 170 for each of 4 tiles

# Tokens of a text are estimated from the lengths of its parts.
LETTERS_PER_TOKEN: Final = 7
DIGITS_PER_TOKEN: Final = 3
SIGNS_PER_TOKEN: Final = 3
FIRST_BROAD: Final = "\u0800"  # from here on a character is about a token, before it half of one
PARTS: Final = re.compile(r"[A-Za-z]+|[0-9]+|[^\x00-\x7f]|\n+|[ \t]{2,}|[!-/:-@\[-`{-~]+")

# Files in tiktoken's cache are named by the SHA-1 of the address that they come from.
CACHED_AS: Final = {
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
}
CACHE_FOLDERS: Final = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")  # environment variables


class Tokenizer(Protocol):
    """A tokenizer, which makes counts exact: an Encoding of tiktoken, a Tokenizer of tokenizers, or anything like them."""

    def encode(self, text: str, /) -> Sized:
        """The tokens of a text."""
        ...


def cached_tokenizer(family: str) -> Tokenizer | None:
    """The tokenizer of tiktoken for a family of OpenAI's; None: not installed, or its data would be downloaded."""
    if not ModelFamily.is_openai(family) or importlib.util.find_spec("tiktoken") is None:
        return None
    name = "cl100k_base" if family in (ModelFamily.GPT_4, ModelFamily.GPT_35) else "o200k_base"
    if not (_cache_folder() / CACHED_AS[name]).is_file():
        return None
    # Not an import statement: tiktoken is optional, and type checkers may not find it.
    tokenizer: Tokenizer = importlib.import_module("tiktoken").get_encoding(name)
    return tokenizer


def _cache_folder() -> Path:
    for variable in CACHE_FOLDERS:
        if variable in os.environ:
            return Path(os.environ[variable])
    return Path(tempfile.gettempdir(), "data-gym-cache")


def count_request(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], tokenizer: Tokenizer | None
) -> int:
    """Tokens of a request.

    Args:
        messages: as they go over the wire.
        tools: their schemas.
        tokenizer: None: an estimate, about a tenth off for English prose and for code, more for other languages.
    """
    count = sum(_of_message(message, tokenizer) + TOKENS_PER_MESSAGE for message in messages)
    count += sum(count_text(json.dumps(tool), tokenizer) + TOKENS_PER_TOOL for tool in tools)
    return count + TOKENS_FOR_REPLY


def _of_message(message: Mapping[str, Any], tokenizer: Tokenizer | None) -> int:
    content = message.get("content") or ""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    count = 0
    for part in parts:
        count += count_text(part["text"], tokenizer) if part["type"] == "text" else TOKENS_PER_IMAGE
    if "name" in message:
        count += count_text(message["name"], tokenizer)
    for call in message.get("tool_calls", ()):
        count += count_text(json.dumps(call["function"]), tokenizer) + TOKENS_PER_MESSAGE
    return count


def count_text(text: str, tokenizer: Tokenizer | None) -> int:
    """Tokens of a text."""
    if tokenizer is None:
        return math.ceil(sum(_estimate(part[0]) for part in PARTS.finditer(text)))
    # tiktoken's `encode` refuses texts that contain its special tokens.
    encode = getattr(tokenizer, "encode_ordinary", tokenizer.encode)
    return len(encode(text))


def _estimate(part: str) -> float:
    first = part[0]
    if not first.isascii():
        return 1.0 if first >= FIRST_BROAD else 0.5
    if first.isspace():
        return 1.0
    per_token = LETTERS_PER_TOKEN if first.isalpha() else SIGNS_PER_TOKEN
    return math.ceil(len(part) / (DIGITS_PER_TOKEN if first.isdigit() else per_token))
