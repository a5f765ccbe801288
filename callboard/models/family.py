"""Families of models, whose servers and answers differ."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

_OPENAI: Final = ("gpt-5", "gpt-41", "gpt-45", "gpt-4o", "o1", "o3", "o4", "gpt-4", "gpt-35")


class ModelFamily:
    """Names of families, as AutoGen has them. Any other text is a family that is not known here."""

    GPT_5: Final = "gpt-5"
    GPT_41: Final = "gpt-41"
    GPT_45: Final = "gpt-45"
    GPT_4O: Final = "gpt-4o"
    O1: Final = "o1"
    O3: Final = "o3"
    O4: Final = "o4"
    GPT_4: Final = "gpt-4"
    GPT_35: Final = "gpt-35"
    R1: Final = "r1"
    GEMINI_1_5_FLASH: Final = "gemini-1.5-flash"
    GEMINI_1_5_PRO: Final = "gemini-1.5-pro"
    GEMINI_2_0_FLASH: Final = "gemini-2.0-flash"
    GEMINI_2_5_PRO: Final = "gemini-2.5-pro"
    GEMINI_2_5_FLASH: Final = "gemini-2.5-flash"
    CLAUDE_3_HAIKU: Final = "claude-3-haiku"
    CLAUDE_3_SONNET: Final = "claude-3-sonnet"
    CLAUDE_3_OPUS: Final = "claude-3-opus"
    CLAUDE_3_5_HAIKU: Final = "claude-3-5-haiku"
    CLAUDE_3_5_SONNET: Final = "claude-3-5-sonnet"
    CLAUDE_3_7_SONNET: Final = "claude-3-7-sonnet"
    CLAUDE_4_OPUS: Final = "claude-4-opus"
    CLAUDE_4_SONNET: Final = "claude-4-sonnet"
    LLAMA_3_3_8B: Final = "llama-3.3-8b"
    LLAMA_3_3_70B: Final = "llama-3.3-70b"
    LLAMA_4_SCOUT: Final = "llama-4-scout"
    LLAMA_4_MAVERICK: Final = "llama-4-maverick"
    CODESRAL: Final = "codestral"
    OPEN_CODESRAL_MAMBA: Final = "open-codestral-mamba"
    MISTRAL: Final = "mistral"
    MINISTRAL: Final = "ministral"
    PIXTRAL: Final = "pixtral"
    UNKNOWN: Final = "unknown"

    # Type checkers want the texts themselves.
    # fmt: off
    ANY: TypeAlias = Literal[
        "gpt-5", "gpt-41", "gpt-45", "gpt-4o", "o1", "o3", "o4", "gpt-4", "gpt-35", "r1",
        "gemini-1.5-flash", "gemini-1.5-pro", "gemini-2.0-flash", "gemini-2.5-pro", "gemini-2.5-flash",
        "claude-3-haiku", "claude-3-sonnet", "claude-3-opus", "claude-3-5-haiku", "claude-3-5-sonnet",
        "claude-3-7-sonnet", "claude-4-opus", "claude-4-sonnet", "llama-3.3-8b", "llama-3.3-70b",
        "llama-4-scout", "llama-4-maverick", "codestral", "open-codestral-mamba", "mistral", "ministral",
        "pixtral", "unknown",
    ]
    # fmt: on

    def __new__(cls, *args: Any, **kwargs: Any) -> ModelFamily:
        raise TypeError("ModelFamily is a list of names: use them, don't make one")

    @staticmethod
    def is_openai(family: str) -> bool:
        """Whether it is one of OpenAI's."""
        return family in _OPENAI

    @staticmethod
    def is_claude(family: str) -> bool:
        """Whether it is one of Anthropic's."""
        return family.startswith("claude-")

    @staticmethod
    def is_gemini(family: str) -> bool:
        """Whether it is one of Google's."""
        return family.startswith("gemini-")

    @staticmethod
    def is_llama(family: str) -> bool:
        """Whether it is one of Meta's."""
        return family.startswith("llama-")

    @staticmethod
    def is_mistral(family: str) -> bool:
        """Whether it is one of Mistral's."""
        names = {"codestral", "open-codestral-mamba", "mistral", "ministral", "pixtral"}
        return family in names
