"""`callboard server`: the embedded server, and Redis commands without redis-cli."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callboard.cli.exits import FAILED, UNREACHABLE
from callboard.cli.options import AsJson, Url, command, help_of
from callboard.cli.output import print_json, say
from callboard.cli.sessions import server_at
from callboard.foundation.texts import shell_line

if TYPE_CHECKING:
    from callboard.broker.redis.client.endpoint import Endpoint
    from callboard.broker.redis.client.transport import RedisTransport
    from callboard.broker.redis.embedded import ServerStatus


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
    """Run the commands of some lines, until they end or one is `quit` or `exit`.

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


# Blocking commands may take as long as they like.
ANSWER_TIMEOUT = 86_400.0

server = typer.Typer(
    help="The embedded server of the current folder.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def start(as_json: AsJson = False) -> None:
    """Start the server, and let it stay until `server stop`.

    Otherwise it is started by the first command that needs it, and stops with the last.

      callboard server start
      export CALLBOARD_URL=$(callboard server status --json | jq -r .url)
    """
    from callboard.broker.redis.embedded import EmbeddedServer

    show(asyncio.run(EmbeddedServer.start_persistent()), as_json)


def stop() -> None:
    """Stop the server, even if processes use it. Its data stay.

    Workers that use it go on as soon as it is started again.

      callboard server stop
    """
    from callboard.broker.redis.embedded import EmbeddedServer

    ran = asyncio.run(EmbeddedServer.stop())
    say("stopped; its data stay in .callboard/" if ran else "no server runs in .callboard/ of this folder")


def status(as_json: AsJson = False) -> int:
    """Say whether the server runs, and where.

      callboard server status
      callboard server status --json

    Exit codes: 0 it runs, 3 it does not.
    """
    from callboard.broker.redis.embedded import EmbeddedServer

    found = asyncio.run(EmbeddedServer.status())
    if found is not None:
        show(found, as_json)
        return 0
    if as_json:
        print_json(None)
    else:
        say("no server runs in .callboard/ of this folder; the next command that needs it starts it")
    return UNREACHABLE


def show(found: ServerStatus, as_json: bool) -> None:
    """Print where a server is."""
    if as_json:
        from dataclasses import asdict

        print_json(asdict(found))
        return
    stays = "it stays until `callboard server stop`" if found.persistent else "it stops with its last user"
    say(f"the server runs as process {found.pid}; {stays}")
    say(f"  url     {found.url}")
    say(f"  cli     {shell_line('redis-cli', '-s', found.socket_path)}")
    say(f"  data    {found.directory}")
    say(f"  program {found.binary}")


def cli(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COMMAND]...", help="A Redis command; none: type them, one by one."),
    ] = None,
    url: Url = None,
) -> int:
    """Run redis-cli on the server. Where it is not installed, a small client prints the same.

    The embedded server is started if it does not run, even if CALLBOARD_URL is set; --url takes another one.

      callboard server cli PING
      callboard server cli XINFO GROUPS 'callboard:{counting}:topic:visits'
      callboard server cli
    """
    given = list(arguments or [])
    with asyncio.Runner() as runner:
        using = server_at(url)
        server = runner.run(using.__aenter__())
        try:
            return _talk(runner, server.url, given)
        finally:
            runner.run(using.__aexit__(None, None, None))


def _talk(runner: asyncio.Runner, url: str, arguments: list[str]) -> int:
    from callboard.broker import BrokerSettings
    from callboard.broker.redis.client.endpoint import Endpoint
    from callboard.broker.redis.client.sentinels import locate
    from callboard.broker.redis.client.transport import RedisTransport

    endpoint = Endpoint.parse(url)
    program = shutil.which("redis-cli")
    if program is not None:
        found = runner.run(locate(endpoint, BrokerSettings().connect_timeout))
        return _run_redis_cli(program, found, arguments)

    async def transport() -> RedisTransport:
        return RedisTransport(url, BrokerSettings())

    opened = runner.run(transport())
    try:
        return _answer(runner, opened, arguments) if arguments else _converse(runner, opened, endpoint)
    finally:
        runner.run(opened.close())


def _run_redis_cli(program: str, endpoint: Endpoint, arguments: list[str]) -> int:
    words, secret = redis_cli_command(program, endpoint, arguments)
    with _ctrl_c_is_theirs():
        return subprocess.call(words, env={**os.environ, **secret})


@contextlib.contextmanager
def _ctrl_c_is_theirs() -> Iterator[None]:
    # A handler, not SIG_IGN: that the child would inherit.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _answer(runner: asyncio.Runner, transport: RedisTransport, arguments: list[str]) -> int:
    choice = arguments[0] if arguments[0] in ("--raw", "--no-raw") else ""
    answer = runner.run(_call(transport, arguments[1:] if choice else arguments))
    failed = isinstance(answer, Exception)
    if choice == "--no-raw" or (sys.stdout.isatty() and choice != "--raw") or failed:
        say(formatted(answer))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(raw(answer) + b"\n")
        sys.stdout.buffer.flush()
    return FAILED if failed else 0


def _converse(runner: asyncio.Runner, transport: RedisTransport, endpoint: Endpoint) -> int:
    lines = typed(f"{endpoint.shown}> ") if sys.stdin.isatty() else sys.stdin
    converse(lambda words: runner.run(_call(transport, words)), lines, say)
    return 0


async def _call(transport: RedisTransport, words: list[str]) -> Any:
    from callboard.broker.errors import CommandError

    try:
        return await transport.admin.command(*words, timeout=ANSWER_TIMEOUT)
    except CommandError as error:
        return error


command(server, "start", start)
command(server, "stop", stop)
command(server, "status", status)
# Everything behind the first word belongs to Redis, such as a negative number.
server.command(
    "cli",
    help=help_of(cli),
    context_settings={
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
        "help_option_names": ["--help"],
    },
)(cli)
