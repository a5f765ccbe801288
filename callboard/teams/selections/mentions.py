"""Which members a text mentions."""

from __future__ import annotations

import re
from collections.abc import Sequence


def mentions(text: str, names: Sequence[str]) -> list[str]:
    r"""The names that a text mentions, in the order of `names`; AutoGen's rules.

    A name counts where no letter, digit or underscore stands before or behind it. Case matters. For `_` in a name the text
    may have a blank, or the ``\_`` of Markdown.
    """
    return [name for name in names if re.search(_pattern(name), f" {text} ")]


def _pattern(name: str) -> str:
    spellings = (name, name.replace("_", " "), name.replace("_", r"\_"))
    return rf"(?<=\W)(?:{'|'.join(re.escape(spelling) for spelling in spellings)})(?=\W)"
