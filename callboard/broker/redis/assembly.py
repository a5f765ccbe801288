"""How the files of `lua/` become the text of one library."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .constants import take_constants, with_values


def assemble(shared: Sequence[str], operations: Sequence[Sequence[str]], given: Mapping[str, str]) -> str:
    """Puts files together: what is shared, then a block for each operation.

    Args:
        shared: files that all operations use; each may use those before it.
        operations: the files of each.
        given: values of names that stand for a value in every file and are defined in none.
    """
    common, values = _with_constants(shared, given)
    blocks = "\n".join(f"do\n{_in_rooms(_with_constants(files, values)[0])}\nend" for files in operations)
    return _in_rooms(common, blocks)


def _with_constants(files: Sequence[str], values: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """The files with the values of constants put in, their own and those of the files before; and all of these."""
    known, texts = dict(values), []
    for file in files:
        text, own = take_constants(_without_comments(file))
        known.update(own)
        texts.append(with_values(text, known))
    return texts, known


def _without_comments(text: str) -> str:
    return "\n".join(
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("--")
    )


def _in_rooms(texts: Sequence[str], rest: str = "") -> str:
    """Files one after the other, each in a block of its own.

    Lua allows 200 locals at once. What only its own file uses is a local of the block; what a later one uses is made
    known before it.
    """
    later = set(_WORD.findall(rest))
    rooms = [rest]
    for text in reversed(texts):  # each word is looked at once: there are 25 operations
        rooms.append(_in_room(text, later))
        later.update(_WORD.findall(text))
    return "\n".join(reversed(rooms))


def _in_room(text: str, later: set[str]) -> str:
    shared: list[str] = []

    def export(found: re.Match[str]) -> str:
        is_function, names, assigns = found.groups()
        if later.isdisjoint(words := _WORD.findall(names)):
            return found[0]
        shared.extend(words)
        if is_function:
            return f"function {names}"
        return f"{names} {assigns}" if assigns else ""

    inside = _DEFINITION.sub(export, text)
    return f"local {', '.join(shared)}\ndo\n{inside}\nend" if shared else f"do\n{text}\nend"


_WORD = re.compile(r"[A-Za-z_]\w*")
# A local of a file: a function, or names that get a value now or later.
_DEFINITION = re.compile(r"^local (function )?(\w+(?:, \w+)*)(?: (=)|(?=\()|(?: --.*)?$)", re.MULTILINE)
