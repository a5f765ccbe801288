from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callboard.memory.llm_messages import AssistantMessage, FunctionCall, Image, UserMessage
from callboard.models.info import ModelInfo
from callboard.models.openai import OpenAIChatCompletionClient
from callboard.models.openai.settings import (
    CACHED_AS,
    TOKENS_FOR_REPLY,
    TOKENS_PER_IMAGE,
    TOKENS_PER_MESSAGE,
    TOKENS_PER_TOOL,
    cached_tokenizer,
    count_request,
    count_text,
)

ENGLISH = "It was the best of times, it was the worst of times, it was the age of wisdom."
URL = "http://127.0.0.1:9/v1"
PIXEL = Image.from_bytes(b"\x89PNG\r\n\x1a\n", "image/png")


class Letters:
    """A tokenizer for which every character is a token."""

    def encode(self, text: str) -> list[str]:
        return list(text)


class Refusing(Letters):
    """As tiktoken's: `encode` refuses special tokens."""

    def encode(self, text: str) -> list[str]:
        raise ValueError("Encountered text corresponding to disallowed special token")

    def encode_ordinary(self, text: str) -> list[str]:
        return list(text)


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("", 0, 0),
        (ENGLISH, 18, 24),  # 20 with cl100k_base
        ("def add(a, b):\n    return a + b\n", 10, 20),
        ("人人生而自由", 4, 8),
        ("Все люди рождаются свободными", 6, 18),
        ("1234567890", 3, 5),
        (" " * 1000, 1, 2),
    ],
)
def test_the_estimate_is_near(text: str, low: int, high: int) -> None:
    assert low <= count_text(text, None) <= high


def test_a_longer_text_never_has_fewer_tokens() -> None:
    counts = [count_text(ENGLISH[:length], None) for length in range(len(ENGLISH))]
    assert counts == sorted(counts)


def test_a_tokenizer_makes_counts_exact() -> None:
    assert count_text("abc", Letters()) == 3
    assert count_text("<|endoftext|>", Refusing()) == 13


def test_the_parts_of_a_request() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "abc", "name": "ada"},
        {"role": "user", "content": [{"type": "text", "text": "ab"}, {"type": "image_url", "image_url": {}}]},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {}}]},
    ]

    count = count_request(messages, [{}], Letters())

    texts = len("abc") + len("ada") + len("ab") + len("{}") + len("{}")
    around = 4 * TOKENS_PER_MESSAGE + TOKENS_PER_IMAGE + TOKENS_PER_TOOL + TOKENS_FOR_REPLY
    assert count == texts + around


def test_a_client_counts(info: ModelInfo) -> None:
    client = OpenAIChatCompletionClient("m", base_url=URL, model_info=info, tokenizer=Letters())
    text = client.count_tokens([UserMessage(content="Hello", source="ada")])

    assert text == len("Hello") + len("ada") + TOKENS_PER_MESSAGE + TOKENS_FOR_REPLY
    assert (
        client.count_tokens([UserMessage(content=["Hello", PIXEL], source="ada")]) == text + TOKENS_PER_IMAGE
    )
    call = AssistantMessage(content=[FunctionCall("1", "{}", "add")], source="ada")
    assert client.count_tokens([call]) > 0
    assert client.count_tokens([], tools=[{"name": "add"}]) > client.count_tokens([])


@pytest.mark.parametrize(
    ("family", "name"), [("gpt-4o", "o200k_base"), ("gpt-5", "o200k_base"), ("gpt-4", "cl100k_base")]
)
def test_tiktoken_is_used_only_with_data_in_its_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, family: str, name: str
) -> None:
    tiktoken = pytest.importorskip("tiktoken", reason="tiktoken is not installed: pip install tiktoken")
    monkeypatch.setattr(tiktoken, "get_encoding", lambda asked: asked)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))

    assert cached_tokenizer(family) is None
    (tmp_path / CACHED_AS[name]).touch()
    assert cached_tokenizer(family) == name
    assert cached_tokenizer("claude-3-haiku") is None


def test_the_cache_may_be_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", str(tmp_path))
    assert cached_tokenizer("gpt-4o") is None
    monkeypatch.delenv("DATA_GYM_CACHE_DIR")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    assert cached_tokenizer("gpt-4o") is None
