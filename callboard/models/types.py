"""Parts of a model's question and answer, with the names of `autogen_core.models`."""

# ruff: noqa: PLC0414 - the messages are passed on, since they belong to AutoGen's room of models
from __future__ import annotations

import json
import operator
import re
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field, fields
from itertools import groupby
from typing import Any, Final, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from callboard.broker.codec import message
from callboard.foundation.texts import read_json
from callboard.memory.llm_messages import (
    AssistantMessage as AssistantMessage,
    FunctionCall as FunctionCall,
    FunctionExecutionResult as FunctionExecutionResult,
    FunctionExecutionResultMessage as FunctionExecutionResultMessage,
    Image as Image,
    LLMMessage as LLMMessage,
    SystemMessage as SystemMessage,
    UserMessage as UserMessage,
    Vendor as Vendor,
)

FinishReasons: TypeAlias = Literal["stop", "length", "function_calls", "content_filter", "unknown"]


@dataclass(frozen=True)
class RequestUsage:
    """Tokens of one request, or of several added up.

    Add them with ``+``: it can't be changed, so that one that was handed out never changes behind anybody's back.
    AutoGen's can: a client of your own that counts with ``usage.prompt_tokens += n`` there writes
    ``usage += RequestUsage(n, 0)`` here.

    Attributes:
        prompt_tokens: tokens that the model read.
        completion_tokens: tokens that it wrote, its reasoning included.
        cached_tokens: those of the prompt that the server had in its cache, which cost less; unknown to AutoGen.
        reasoning_tokens: those of the completion that are reasoning; unknown to AutoGen.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Both together."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: RequestUsage) -> RequestUsage:
        return RequestUsage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


@dataclass(frozen=True)
class TopLogprob:
    """The probability of another token at one position.

    Attributes:
        logprob: natural logarithm of its probability.
        bytes: the token as UTF-8; None when it has no bytes of its own.
    """

    logprob: float
    bytes: list[int] | None = None


class ChatCompletionTokenLogprob(BaseModel):
    """The probability of a token of the answer.

    Attributes:
        token: the token.
        logprob: natural logarithm of its probability.
        top_logprobs: the likeliest tokens at its position.
        bytes: the token as UTF-8.
    """

    model_config = ConfigDict(frozen=True)

    token: str
    logprob: float
    top_logprobs: list[TopLogprob] | None = None
    bytes: list[int] | None = None


def _is_one(number: object) -> bool:
    return number == 1


@message(name="callboard.CreateResult")
class CreateResult(BaseModel):
    """The answer of a model.

    Attributes:
        finish_reason: why it ended.
        content: a text, or the calls that the model asks for.
        usage: tokens of this request, corrections included.
        requests: how often the model was asked for it: more than once where an answer before could not be used.
        cached: whether it comes from a cache, so that nothing was paid for it.
        logprobs: of the tokens of the answer, when they were asked for.
        thought: its reasoning, or the text that came along with calls.
        vendor: what the maker wants back with it in the next request, see `AssistantMessage`; None: nothing.
        citations: the sources that the server names for it, such as pages of a search in the web, as the server sends them.
    """

    model_config = ConfigDict(frozen=True)

    finish_reason: FinishReasons
    content: str | list[FunctionCall]
    usage: RequestUsage
    cached: bool
    logprobs: list[ChatCompletionTokenLogprob] | None = None
    thought: str | None = None
    vendor: Vendor | None = Field(default=None, exclude_if=operator.not_)
    requests: int = Field(default=1, exclude_if=_is_one)
    citations: list[JsonValue] = Field(default_factory=list[JsonValue], exclude_if=operator.not_)


CITATIONS: Final = "citations"
"""Where the metadata of a message has the sources that the server names for it: a list as JSON."""
ENDED: Final = "ended"
"""Where the metadata of a message names how the model's answer ended, if not as usual: a key of `ENDINGS`."""
ENDINGS: Final[Mapping[str, str]] = {
    "cut_off": "the answer was cut off at the limit of tokens",
    "filtered": "the answer was stopped by the server's content filter",
    "empty": "the answer is empty",
}


def metadata_of(result: CreateResult) -> dict[str, str]:
    """The metadata of a message with an answer: how it ended, if not as usual, and the sources that it cites."""
    cited = {CITATIONS: json.dumps(result.citations, ensure_ascii=False)} if result.citations else {}
    return {**ending_of(result), **cited}


def ending_of(result: CreateResult) -> dict[str, str]:
    """How an answer ended, as metadata of a message; empty: as usual."""
    if result.finish_reason == "length":
        return {ENDED: "cut_off"}
    if result.finish_reason == "content_filter":
        return {ENDED: "filtered"}
    return {} if result.content else {ENDED: "empty"}


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


BLOCK: Final = re.compile(r"```[ \t]*([\w+-]*)[ \t]*\n(.*?)```", re.DOTALL)


def extract_json_from_str(content: str) -> list[Any]:
    """The JSON values in a text; a name of `autogen_core.utils`.

    Args:
        content: A text with fenced blocks of JSON, whatever else stands around them; without any block, JSON itself.

    Returns:
        A value for each block, in their order.

    Raises:
        ValueError: A block, or the text, is no JSON, or a block says that it is of another language.
    """
    blocks = BLOCK.findall(content) or [("json", content)]
    for language, _ in blocks:
        if language.lower() not in ("", "json"):
            raise ValueError(f"Expected JSON object, but found language: {language}")
    return [read_json(text, is_strict=False) for _, text in blocks]


@dataclass(frozen=True, slots=True)
class Spent:
    """An amount of requests, tokens and money.

    Attributes:
        requests: how often models were asked, corrections included, and answers of a cache.
        prompt_tokens: tokens that models read and that were paid for.
        completion_tokens: tokens that they wrote.
        usd: the cost, as far as prices are known.
        unpriced: answers of models without a known price.
        cached_tokens: those among `prompt_tokens` that servers had in their cache.
        reasoning_tokens: those among `completion_tokens` that are reasoning.
    """

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Both kinds of tokens."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Spent) -> Spent:
        return Spent(*(mine + yours for mine, yours in zip(astuple(self), astuple(other), strict=True)))

    @property
    def amounts(self) -> dict[str, float]:
        """The amounts that are not zero, by the names of their fields."""
        return {spec.name: amount for spec in fields(self) if (amount := getattr(self, spec.name))}

    @classmethod
    def read(cls, table: Mapping[str, bytes]) -> Self:
        """An amount from the table that a store keeps."""
        names = {spec.name for spec in fields(cls)}
        numbers = {name: float(value) for name, value in table.items() if name in names}
        whole = {spec.name: round(numbers.get(spec.name, 0)) for spec in fields(cls) if spec.name != "usd"}
        return cls(**whole, usd=numbers.get("usd", 0.0))


@dataclass(frozen=True, slots=True)
class UsagePart:
    """Usage of one model by one agent.

    Attributes:
        agent: type of the agent, such as "poets.writer"; of a team's manager, whose model chooses speakers, the team's name;
            "": no agent.
        model: name of the model.
        spent: the amount.
    """

    agent: str
    model: str
    spent: Spent


@dataclass(frozen=True, slots=True)
class RunUsage:
    """Usage of a run until now; requests under way are not in it.

    Attributes:
        total: all of it.
        parts: the same for each agent and each of its models, in the order of their names.
        limit_tokens: most tokens that it may use; None: no limit.
        limit_usd: most that it may spend, USD; None: no limit.
    """

    total: Spent = Spent()
    parts: tuple[UsagePart, ...] = field(default=())
    limit_tokens: int | None = None
    limit_usd: float | None = None

    @property
    def by_agent(self) -> dict[str, Spent]:
        """The amount of each agent, by its type."""
        return _sums((part.agent, part.spent) for part in self.parts)

    @property
    def by_model(self) -> dict[str, Spent]:
        """The amount of each model, by its name."""
        return _sums((part.model, part.spent) for part in self.parts)

    @classmethod
    def read(cls, table: Mapping[str, bytes]) -> Self:
        """The usage of a run from the table that a store keeps: `<agent> <model> <unit>` -> amount, and the sums."""
        named = sorted((_split(name), value) for name, value in table.items() if " " in name)
        parts = tuple(
            UsagePart(names[0], names[1], Spent.read({unit: value for (_, _, unit), value in group}))
            for names, group in groupby(named, key=lambda item: item[0][:2])
        )
        tokens, usd = (table.get(f"limit_{unit}") for unit in ("tokens", "usd"))
        return cls(
            Spent.read(table),
            parts,
            None if tokens is None else int(float(tokens)),
            None if usd is None else float(usd),
        )


def _split(name: str) -> tuple[str, str, str]:
    agent, _, rest = name.partition(" ")
    model, _, unit = rest.rpartition(" ")
    return agent, model, unit


def _sums(amounts: Iterable[tuple[str, Spent]]) -> dict[str, Spent]:
    sums: dict[str, Spent] = {}
    for name, spent in amounts:
        sums[name] = sums.get(name, Spent()) + spent
    return sums
