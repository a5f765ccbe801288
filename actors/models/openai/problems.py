"""What is wrong with data, in words that repeat nothing of them."""

from __future__ import annotations

from pydantic import ValidationError


def first_problem(error: ValidationError) -> str:
    """Where the first problem is, and what it is."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}{': ' if place else ''}{first['msg']}"
