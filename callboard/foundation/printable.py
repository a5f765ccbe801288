"""Text that comes from others, made safe for a line of a terminal or a log."""

from __future__ import annotations

from typing import Final

# A key may hold anything, also what moves a terminal's cursor or begins a line of its own. Written as JSON writes it.
# Marks of direction let a text be read in another order than it has, such as the arguments of a call that a person allows.
_DIRECTIONS: Final = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_NUMBERS: Final = (*range(32), *range(127, 160), 0x2028, 0x2029, *_DIRECTIONS)
_CONTROLS: Final = {number: f"\\u{number:04x}" for number in _NUMBERS}
_BUT_LINES: Final = {number: text for number, text in _CONTROLS.items() if chr(number) not in "\n\t"}


def one_line(text: str) -> str:
    r"""A text with `\u001b` for each control character, ends of lines among them."""
    return text if text.isprintable() else text.translate(_CONTROLS)


def printable(text: str) -> str:
    r"""A text with `\u001b` for each control character but ends of lines and tabs."""
    return text if text.isprintable() else text.translate(_BUT_LINES)
