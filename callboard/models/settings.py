"""Every default of the model layer, once, with its unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from callboard.errors import SettingValueError

from .info import Price

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
