"""Constants of the Lua functions: what is sent to the server has their values where the files have their names.

As locals they would take up a part of the 200 that Lua allows at once, and what another file defines is read more slowly
than a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping


def take_constants(text: str) -> tuple[str, dict[str, str]]:
    """A file without its constants, and their values as they are written.

    A constant is a local of the file in capitals, whose value is a number or a text: `local STEP, NOBODY = 2000, 'nobody'`.
    """
    values: dict[str, str] = {}

    def take(found: re.Match[str]) -> str:
        values.update(zip(found[1].split(", "), re.findall(_LITERAL, found[2]), strict=True))
        return ""

    return _DEFINITION.sub(take, text), values


def with_values(text: str, values: Mapping[str, str]) -> str:
    """A text in Lua with values in the place of names. What is in quotes, a comment or a field stays as it is."""
    return _WORD.sub(lambda found: values.get(found[0], found[0]), text)


_LITERAL = r"-?\d+|'[^'\n]*'"
_DEFINITION = re.compile(
    rf"^local ([A-Z_]+(?:, [A-Z_]+)*) = ((?:{_LITERAL})(?:, (?:{_LITERAL}))*)(?: --.*)?$", re.MULTILINE
)
_WORD = re.compile(r"""'[^'\n]*'|"[^"\n]*"|--.*|(?<![.\w])[A-Z_]+\b""")
