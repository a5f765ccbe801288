"""Every default of the model layer, once, with its unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from callboard.errors import SettingValueError

from .info import Price


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """How models are used.

    Attributes:
        prices: model -> Price. Nothing is built in: prices change, and yours may be others.
        max_attempts: how often one request is made before its error is raised.
        retry_base: seconds, upper bound of the first pause; doubles with each attempt.
        retry_cap: seconds, upper bound of every pause.
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
    longest_retry_after: float = 60.0
    cache_seconds: float = 30 * 86_400.0
    usage_seconds: float = 90 * 86_400.0
    hold_seconds: float = 900.0
    assumed_completion_tokens: int = 4_096

    def __post_init__(self) -> None:
        for spec in fields(self):
            value = getattr(self, spec.name)
            if isinstance(value, int | float) and not value > 0 and spec.name != "retry_base":
                raise SettingValueError(spec.name, repr(value), "more than 0")
        if not self.retry_base >= 0:
            raise SettingValueError("retry_base", repr(self.retry_base), "at least 0")


DEFAULTS = ModelSettings()
