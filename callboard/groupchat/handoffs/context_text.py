"""Texts with context variables in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

PLACES: Final = re.compile(r"\{(\w+)(?::([^{}]*))?\}")
WITH_BRACES: Final = re.compile(rf"\{{\{{|\}}\}}|{PLACES.pattern}")


@dataclass(frozen=True)
class ContextStr:
    """A text with variables in braces, such as ``"The customer is {name}."``.

    Args:
        template: The text. A variable may have a format behind a colon: ``{price:.2f}``. As in AG2 ``{{`` and ``}}`` are
            braces; where there is no ``{{``, ``}}`` is what it is, as in JSON.
    """

    template: str

    def format(self, context_variables: Mapping[str, Any]) -> str:
        """The text with the values. A variable that is not there, or does not fit its format, stays in its braces."""
        places = WITH_BRACES if "{{" in self.template else PLACES
        return places.sub(lambda place: _filled(place, context_variables), self.template)

    def __str__(self) -> str:
        return f"ContextStr, unformatted: {self.template}"


def _filled(place: re.Match[str], values: Mapping[str, Any]) -> str:
    name, how = place[1], place[2] or ""
    if name is None:
        return place[0][0]
    if name not in values:
        return place[0]
    try:
        return format(values[name], how)
    except (TypeError, ValueError, ArithmeticError):  # one that is too large for its format
        return place[0]
