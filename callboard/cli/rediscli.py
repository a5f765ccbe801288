"""Runs Redis commands and prints the answers as redis-cli does, where redis-cli is not installed."""

from __future__ import annotations

import contextlib
import importlib
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from callboard.broker.redis.client.endpoint import Endpoint

STATUSES = (b"OK", b"PONG", b"QUEUED")
ESCAPES = {0x22: '\\"', 0x5C: "\\\\", 0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t", 0x07: "\\a", 0x08: "\\b"}


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
    """Bytes in quotes; all but printable ASCII as escapes."""
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


def converse(call: Callable[[list[str]], Any], lines: Iterable[str], write: Callable[[str], None]) -> None:
    """Runs the commands of some lines, until they end or one is `quit` or `exit`.

    Args:
        call: Runs one command; returns a CommandError instead of raising it.
        lines: As typed.
        write: Takes each answer.
    """
    for line in lines:
        try:
            words = shlex.split(line)
        except ValueError:
            write("Invalid argument(s)")
            continue
        if words and words[0].lower() in ("quit", "exit"):
            return
        if words:
            write(formatted(call(words)))


def typed(prompt: str) -> Iterator[str]:
    """The lines that are typed, with a history where Python has readline."""
    with contextlib.suppress(ImportError):
        importlib.import_module("readline")
    with contextlib.suppress(EOFError):
        while True:
            yield input(prompt)


def redis_cli_command(
    program: str, endpoint: Endpoint, arguments: list[str]
) -> tuple[list[str], dict[str, str]]:
    """The command that runs redis-cli on a server, and the variables to add to the environment.

    Args:
        program: Path of redis-cli.
        endpoint: The server.
        arguments: The command for redis-cli, and its options.
    """
    where = ["-h", endpoint.host, "-p", str(endpoint.port)]
    if endpoint.scheme == "unix":
        where = ["-s", endpoint.path]
    if endpoint.scheme == "rediss":
        where += ["--tls", *(["--cacert", endpoint.ca_file] if endpoint.ca_file else [])]
        where += [] if endpoint.check_certificate else ["--insecure"]
    if endpoint.database:
        where += ["-n", str(endpoint.database)]
    if endpoint.username:
        where += ["--user", endpoint.username]
    # In the environment, because a command line is public.
    secret = {"REDISCLI_AUTH": endpoint.password} if endpoint.password else {}
    return [program, *where, *arguments], secret
