"""The names and descriptions that tools may have."""

from __future__ import annotations

import keyword
import re
from typing import Final

from .errors import ToolDeclarationError

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
MAX_DESCRIPTION: Final = 1024  # characters; the limit of OpenAI's API


def check_name(name: str) -> str:
    """The name, if model APIs take it as that of a function.

    Raises:
        ToolDeclarationError: They don't (a ValueError).
    """
    if not NAME.match(name) or keyword.iskeyword(name):
        raise ToolDeclarationError(
            repr(name[:80]),
            "its name may have a letter or '_', then up to 63 letters a-z, digits and '_', and is no Python keyword",
        )
    return name


def check_description(name: str, description: str) -> str:
    """The description of a tool, if it is not too long.

    Raises:
        ToolDeclarationError: It has more than 1,024 characters (a ValueError).
    """
    if len(description) > MAX_DESCRIPTION:
        raise ToolDeclarationError(
            name,
            f"its description has {len(description):,} characters: at most {MAX_DESCRIPTION:,} are allowed",
        )
    return description
