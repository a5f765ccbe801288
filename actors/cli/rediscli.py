"""Runs Redis commands and prints the answers as redis-cli does, where redis-cli is not installed."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

STATUSES = (b"OK", b"PONG", b"QUEUED")
ESCAPES = {0x22: '\\"', 0x5C: "\\\\", 0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t", 0x07: "\\a", 0x08: "\\b"}

Call = Callable[[list[str]], Awaitable[Any]]


def formatted(answer: Any, *, indent: str = "") -> str:
    """An answer for people: strings in quotes, arrays numbered and nested.

    Args:
        answer: bytes, int, None, or lists of these.
        indent: In front of every line but the first.
    """
    if answer is None:
        return "(nil)"
    if isinstance(answer, int):
        return f"(integer) {answer}"
    if isinstance(answer, bytes):
        return answer.decode() if answer in STATUSES else quoted(answer)
    if isinstance(answer, Exception):
        return f"(error) {answer}"
    if not answer:
        return "(empty array)"
    width = len(str(len(answer)))
    inner = indent + " " * (width + 2)
    lines = [f"{number:>{width}}) {formatted(item, indent=inner)}" for number, item in enumerate(answer, 1)]
    return f"\n{indent}".join(lines)


def quoted(value: bytes) -> str:
    """Bytes in quotes; what is not printable ASCII as escapes."""
    text = "".join(
        ESCAPES.get(byte) or (chr(byte) if 0x20 <= byte < 0x7F else f"\\x{byte:02x}") for byte in value
    )
    return f'"{text}"'


def raw(answer: Any) -> bytes:
    """An answer for programs: values as they are, one per line."""
    return b"\n".join(_flat(answer))


def _flat(answer: Any) -> Iterator[bytes]:
    if isinstance(answer, list):
        for item in answer:
            yield from _flat(item)
    elif isinstance(answer, bytes):
        yield answer
    else:
        yield b"" if answer is None else str(answer).encode()


async def converse(
    call: Call, read: Callable[[], Awaitable[str | None]], write: Callable[[str], None]
) -> None:
    """Reads commands and writes answers until the end of input, `quit` or `exit`.

    Args:
        call: Runs one command.
        read: The next line; None at the end.
        write: Takes an answer.
    """
    while (line := await read()) is not None:
        try:
            words = shlex.split(line)
        except ValueError:
            write("Invalid argument(s)")
            continue
        if not words:
            continue
        if words[0].lower() in ("quit", "exit"):
            return
        write(formatted(await call(words)))
