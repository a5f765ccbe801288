"""Abilities and prices of models, and every default of this room."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Required

from typing_extensions import TypedDict  # pydantic does not read that of typing before Python 3.12

from callboard.errors import SettingValueError, did_you_mean

from .errors import ModelNotFoundError
from .types import ModelFamily, RequestUsage

PER: Final = 1_000_000  # tokens that a price is for


class ModelCapabilities(TypedDict):
    """AutoGen's older name for a part of ModelInfo, which the configs of older programs have.

    Keys:
        vision: takes images.
        function_calling: takes tools.
        json_output: can be told to answer with a JSON object.
    """

    vision: bool
    function_calling: bool
    json_output: bool


class ModelInfo(TypedDict, total=False):
    """The abilities of a model; the keys are AutoGen's.

    Keys:
        vision: takes images.
        function_calling: takes tools.
        json_output: can be told to answer with a JSON object.
        family: one of ModelFamily, or any other text.
        structured_output: can be told to answer with an object of a JSON schema.
        multiple_system_messages: takes several system messages, also between others. Default: it does not.
    """

    vision: Required[bool]
    function_calling: Required[bool]
    json_output: Required[bool]
    family: Required[str]
    structured_output: Required[bool]
    multiple_system_messages: bool


REQUIRED: Final = ("vision", "function_calling", "json_output", "family", "structured_output")
# Vendors append the version to the name of a model: a date in three spellings, or "latest".
VERSION: Final = re.compile(
    r"-(\d{4}-\d{2}-\d{2}|\d{8}|\d{4}|\d{3}|\d{2}-\d{4}|latest|preview-\d{2}-\d{2})\Z"
)


@dataclass(frozen=True, slots=True)
class KnownModel:
    """One row of the table.

    Attributes:
        info: its abilities.
        context: tokens that a request and its answer may have together.
    """

    info: ModelInfo
    context: int


def _row(
    family: str,
    context: int,
    *,
    vision: bool = True,
    tools: bool = True,
    json: bool = True,
    schema: bool = True,
    systems: bool = True,
) -> KnownModel:
    info = ModelInfo(
        vision=vision,
        function_calling=tools,
        json_output=json,
        family=family,
        structured_output=schema,
        multiple_system_messages=systems,
    )
    return KnownModel(info, context)


# Facts from the vendors' model pages, as AutoGen 0.7.5 lists them. Sizes in tokens.
KNOWN: Final[Mapping[str, KnownModel]] = {
    "gpt-5": _row(ModelFamily.GPT_5, 400_000),
    "gpt-5-mini": _row(ModelFamily.GPT_5, 400_000),
    "gpt-5-nano": _row(ModelFamily.GPT_5, 400_000),
    "gpt-4.1": _row(ModelFamily.GPT_41, 1_047_576),
    "gpt-4.1-mini": _row(ModelFamily.GPT_41, 1_047_576),
    "gpt-4.1-nano": _row(ModelFamily.GPT_41, 1_047_576),
    "gpt-4.5-preview": _row(ModelFamily.GPT_45, 128_000),
    "gpt-4o": _row(ModelFamily.GPT_4O, 128_000),
    "gpt-4o-mini": _row(ModelFamily.GPT_4O, 128_000),
    "gpt-4-turbo": _row(ModelFamily.GPT_4, 128_000, schema=False),
    "gpt-4-turbo-preview": _row(ModelFamily.GPT_4, 128_000, vision=False, schema=False),
    "gpt-4-0125-preview": _row(ModelFamily.GPT_4, 128_000, vision=False, schema=False),
    "gpt-4-1106-preview": _row(ModelFamily.GPT_4, 128_000, vision=False, schema=False),
    "gpt-4": _row(ModelFamily.GPT_4, 8_192, vision=False, schema=False),
    "gpt-4-32k": _row(ModelFamily.GPT_4, 32_768, vision=False, schema=False),
    "gpt-3.5-turbo": _row(ModelFamily.GPT_35, 16_385, vision=False, schema=False),
    "o1": _row(ModelFamily.O1, 200_000, systems=False),
    "o1-preview": _row(
        ModelFamily.O1, 128_000, vision=False, tools=False, json=False, schema=False, systems=False
    ),
    "o1-mini": _row(
        ModelFamily.O1, 128_000, vision=False, tools=False, json=False, schema=False, systems=False
    ),
    "o3": _row(ModelFamily.O3, 200_000),
    "o3-mini": _row(ModelFamily.O3, 200_000, vision=False),
    "o4-mini": _row(ModelFamily.O4, 200_000),
    "gemini-1.5-flash": _row(ModelFamily.GEMINI_1_5_FLASH, 1_048_576, systems=False),
    "gemini-1.5-flash-8b": _row(ModelFamily.GEMINI_1_5_FLASH, 1_048_576, systems=False),
    "gemini-1.5-pro": _row(ModelFamily.GEMINI_1_5_PRO, 2_097_152, systems=False),
    "gemini-2.0-flash": _row(ModelFamily.GEMINI_2_0_FLASH, 1_048_576, systems=False),
    "gemini-2.5-flash": _row(ModelFamily.GEMINI_2_5_FLASH, 1_048_576, systems=False),
    "gemini-2.5-pro": _row(ModelFamily.GEMINI_2_5_PRO, 1_048_576, systems=False),
    "claude-3-haiku": _row(ModelFamily.CLAUDE_3_HAIKU, 200_000, json=False, schema=False),
    "claude-3-sonnet": _row(ModelFamily.CLAUDE_3_SONNET, 200_000, json=False, schema=False),
    "claude-3-opus": _row(ModelFamily.CLAUDE_3_OPUS, 200_000, json=False, schema=False),
    "claude-3-5-haiku": _row(ModelFamily.CLAUDE_3_5_HAIKU, 200_000, json=False, schema=False),
    "claude-3-5-sonnet": _row(ModelFamily.CLAUDE_3_5_SONNET, 200_000, json=False, schema=False),
    "claude-3-7-sonnet": _row(ModelFamily.CLAUDE_3_7_SONNET, 200_000, json=False, schema=False),
    "claude-sonnet-4": _row(ModelFamily.CLAUDE_4_SONNET, 200_000, json=False, schema=False),
    "claude-opus-4": _row(ModelFamily.CLAUDE_4_OPUS, 200_000, json=False, schema=False),
}


def without_version(model: str) -> str:
    """The name of a model without the version behind it: "gpt-4o" for "gpt-4o-2024-08-06"."""
    return VERSION.sub("", model)


def known_model(model: str) -> KnownModel | None:
    """The row of a model; a version behind its name ("gpt-4o-2024-08-06") does not matter. None: not known."""
    return KNOWN.get(model) or KNOWN.get(without_version(model))


def get_info(model: str) -> ModelInfo:
    """The abilities of a well-known model.

    Raises:
        ModelNotFoundError: it is not in the table.
    """
    return _row_of(model).info


def get_token_limit(model: str) -> int:
    """Tokens that the context of a well-known model has.

    Raises:
        ModelNotFoundError: it is not in the table.
    """
    return _row_of(model).context


def _row_of(model: str) -> KnownModel:
    known = known_model(model)
    if known is None:
        nearest = did_you_mean(model, KNOWN)
        raise ModelNotFoundError(
            model, f"model_info is required, for nothing is known of this model. {nearest}"
        )
    return known


def validate_model_info(model_info: Mapping[str, Any]) -> None:
    """Check that a ModelInfo says everything that it has to.

    Raises:
        ValueError: a key is missing.
    """
    missing = [name for name in REQUIRED if name not in model_info]
    if missing:
        raise ValueError(
            f"Missing required field {missing[0]!r} in ModelInfo: it needs {', '.join(REQUIRED)}"
        )


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model.

    Attributes:
        prompt: USD for a million tokens that it reads.
        completion: USD for a million tokens that it writes.
        cached: USD for a million of the tokens that it reads from the server's cache; None: as `prompt`.
    """

    prompt: float
    completion: float
    cached: float | None = None

    def of(self, usage: RequestUsage) -> float:
        """The cost of a request in USD."""
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        of_cache = cached * (self.prompt if self.cached is None else self.cached)
        read, written = usage.prompt_tokens - cached, usage.completion_tokens
        return (of_cache + read * self.prompt + written * self.completion) / PER


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of a model, whose version does not matter unless it has a price of its own; None: not known."""
    return prices.get(model) or prices.get(without_version(model))


MAY_BE_NOTHING: Final = frozenset({"retry_base", "max_corrections"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """How models are used.

    Attributes:
        prices: model -> Price. Nothing is built in: prices change, and yours may be others.
        max_attempts: how often one request is made before its error is raised.
        retry_base: seconds, upper bound of the first pause; doubles with each attempt.
        retry_cap: seconds, upper bound of every pause.
        max_corrections: how often a request is made again, with what was wrong in its words, because its answer does not
            have the form that was asked for, or is a call that can't be made now. 0: never.
        longest_retry_after: seconds; a server that asks to wait longer is not waited for.
        cache_seconds: how long an answer stays in a cache.
        usage_seconds: how long usage that is not added to is remembered.
        hold_seconds: how long an amount stays set aside for a request whose process died.
        assumed_completion_tokens: length of an answer that a budget reckons with when neither the request nor the
            client limits it.

    Raises:
        SettingValueError: a number that is not positive.
    """

    prices: Mapping[str, Price] = field(default_factory=dict)
    max_attempts: int = 5
    retry_base: float = 0.5
    retry_cap: float = 20.0
    max_corrections: int = 1
    longest_retry_after: float = 60.0
    cache_seconds: float = 30 * 86_400.0
    usage_seconds: float = 90 * 86_400.0
    hold_seconds: float = 900.0
    assumed_completion_tokens: int = 4_096

    def __post_init__(self) -> None:
        for spec in fields(self):
            value = getattr(self, spec.name)
            if not isinstance(value, int | float):
                continue
            if spec.name in MAY_BE_NOTHING:
                if not value >= 0:
                    raise SettingValueError(spec.name, repr(value), "at least 0")
            elif not value > 0:
                raise SettingValueError(spec.name, repr(value), "more than 0")


DEFAULTS = ModelSettings()
