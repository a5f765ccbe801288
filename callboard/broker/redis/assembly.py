"""How the files of `lua/` and their constants become the text of one library.

Constants are replaced by their values. As locals they would take up a part of the 200 that Lua allows at once, and what
another file defines is read more slowly than a value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence


def assemble(
    shared: Sequence[str],
    operations: Sequence[tuple[Sequence[str], Mapping[str, str]]],
    given: Mapping[str, str],
) -> str:
    """Puts files together: what is shared, then a block for each operation.

    Args:
        shared: files that all operations use; each may use those before it.
        operations: the files of each, and values of names that stand for a value in these.
        given: values of names that stand for a value in every file and are defined in none.
    """
    common, values = _with_constants(shared, given)
    blocks = "\n".join(
        f"do\n{_in_rooms(_with_constants(files, {**values, **own})[0])}\nend" for files, own in operations
    )
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


_WORD = re.compile(r"[A-Za-z_]\w*")


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


# A local of a file: a function, or names that get a value now or later.
_DEFINITION = re.compile(r"^local (function )?(\w+(?:, \w+)*)(?: (=)|(?=\()|(?: --.*)?$)", re.MULTILINE)


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


_LITERAL = r"-?\d+|'[^'\n]*'"
_CONSTANT = re.compile(
    rf"^local ([A-Z_]+(?:, [A-Z_]+)*) = ((?:{_LITERAL})(?:, (?:{_LITERAL}))*)(?: --.*)?$", re.MULTILINE
)


def take_constants(text: str) -> tuple[str, dict[str, str]]:
    """A file without its constants, and their values as they are written.

    A constant is a local of the file in capitals, whose value is a number or a text: `local STEP, NOBODY = 2000, 'nobody'`.
    """
    values: dict[str, str] = {}

    def take(found: re.Match[str]) -> str:
        values.update(zip(found[1].split(", "), re.findall(_LITERAL, found[2]), strict=True))
        return ""

    return _CONSTANT.sub(take, text), values


ARGUMENT = "ARGV."
_WORD_OR_TEXT = re.compile(r"""'[^'\n]*'|"[^"\n]*"|--.*|(?<![.\w])(?:ARGV\.[a-z_]+|[A-Z_]+\b)""")


def with_values(text: str, values: Mapping[str, str]) -> str:
    """A text in Lua with values in the place of names. What is in quotes, a comment or a field stays as it is.

    Raises:
        KeyError: it names an argument, `ARGV.<name>`, that its function does not have.
    """

    def value(found: re.Match[str]) -> str:
        return values[found[0]] if found[0].startswith(ARGUMENT) else values.get(found[0], found[0])

    return _WORD_OR_TEXT.sub(value, text)
