"""Numbers that a program gives, checked."""

from __future__ import annotations

import math

from .errors import RoleDeclarationError


def check_count(name: str, value: object) -> None:
    """Refuse what is no whole number of 1 or more.

    Raises:
        RoleDeclarationError: It is none (a ValueError).
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise RoleDeclarationError(name, f"has to be 1 or more, and not {value!r}")


def is_amount(value: object) -> bool:
    """Whether it is an amount of money: a finite number of 0 or more."""
    return not isinstance(value, bool) and isinstance(value, int | float) and 0 <= value < math.inf
