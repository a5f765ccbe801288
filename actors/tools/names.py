"""What tools may be called."""

from __future__ import annotations

import keyword
import re
from typing import Final

from .errors import ToolDescriptionError, ToolNameError

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
MAX_DESCRIPTION: Final = 1024  # characters; the limit of OpenAI's API


def check_name(name: str) -> str:
    """The name, if model APIs take it as that of a function.

    Raises:
        ToolNameError: They don't (a ValueError).
    """
    if not NAME.match(name) or keyword.iskeyword(name):
        raise ToolNameError(name)
    return name


def check_description(name: str, description: str) -> str:
    """The description of a tool, if it is not too long.

    Raises:
        ToolDescriptionError: It has more than 1,024 characters (a ValueError).
    """
    if len(description) > MAX_DESCRIPTION:
        raise ToolDescriptionError(name, len(description), MAX_DESCRIPTION)
    return description
