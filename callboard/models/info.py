"""Abilities and prices of models, and every default of this room."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Final, Required

from typing_extensions import TypedDict  # pydantic does not read that of typing before Python 3.12

from callboard.errors import SettingValueError, did_you_mean

from .errors import ModelNotFoundError
from .types import RequestUsage

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


TABLE: Final = Path(__file__).with_name("known.json")
OWN_TABLE: Final = "CALLBOARD_MODELS"  # variable with the path of a table of yours, in the same form
NOTHING_KNOWN: Final = (
    "model_info is required, for nothing is known of this model; a row in the file of "
    f"{OWN_TABLE} is one for all programs."
)
NAMES: Final[Mapping[str, str]] = {
    "vision": "vision",
    "tools": "function_calling",
    "json": "json_output",
    "schema": "structured_output",
    "systems": "multiple_system_messages",
}
"""What `can` lists in a table, and the key of ModelInfo that it is."""


def read_table(path: Path) -> dict[str, KnownModel]:
    """The models of a table.

    Args:
        path: a JSON file: ``{"models": {"my-model": {"family": "unknown", "context": 8192, "can": "tools json"}}}``.

    Raises:
        SettingValueError: it can't be read, or a row is not like this.
    """
    try:
        rows = json.loads(path.read_text("utf-8"))["models"]
        return {name: _known(row) for name, row in rows.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        rule = f"a table of models as JSON, see docs/models.md ({type(error).__name__}: {error})"
        raise SettingValueError(OWN_TABLE, str(path), rule) from error


def _known(row: Mapping[str, Any]) -> KnownModel:
    can = row["can"].split()
    if unknown := [word for word in can if word not in NAMES]:
        raise ValueError(f"a model can't {unknown[0]!r}, only {', '.join(NAMES)}")
    info: Any = {"family": str(row["family"]), **{key: word in can for word, key in NAMES.items()}}
    return KnownModel(info, int(row["context"]))


@cache
def known_models() -> Mapping[str, KnownModel]:
    """The models of our table, which says its date, then those of the file that CALLBOARD_MODELS names, which win.

    Raises:
        SettingValueError: the file can't be read.
    """
    own = os.environ.get(OWN_TABLE)
    return {**read_table(TABLE), **(read_table(Path(own)) if own else {})}


def without_version(model: str) -> str:
    """The name of a model without the version behind it: "gpt-4o" for "gpt-4o-2024-08-06"."""
    return VERSION.sub("", model)


def known_model(model: str) -> KnownModel | None:
    """The row of a model; a version behind its name ("gpt-4o-2024-08-06") does not matter. None: not known."""
    known = known_models()
    return known.get(model) or known.get(without_version(model))


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
        nearest = did_you_mean(model, known_models())
        raise ModelNotFoundError(model, f"{NOTHING_KNOWN} {nearest}")
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
        max_attempts_on_bus: the same at most in a handler: after an outage the bus tries its message again, and the two
            multiply.
        max_timeouts: how often one request is made whose answer does not come in time. The server may have worked on each,
            and charge it: so in a handler they are no outage, and use up an attempt of the message.
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
    max_attempts_on_bus: int = 2
    max_timeouts: int = 2
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
