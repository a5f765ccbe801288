"""`callboard server`: the embedded server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callboard.cli.exits import FAILED, UNREACHABLE
from callboard.cli.options import AsJson, Url, command, help_of
from callboard.cli.output import print_json, say
from callboard.cli.rediscli import converse, formatted, raw, redis_cli_command, typed
from callboard.cli.sessions import server_at

if TYPE_CHECKING:
    from callboard.broker.redis.client.endpoint import Endpoint
    from callboard.broker.redis.client.transport import RedisTransport
    from callboard.broker.redis.server.embedded import ServerStatus

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
    from callboard.broker.redis.server.embedded import EmbeddedServer

    show(asyncio.run(EmbeddedServer.start_persistent()), as_json)


def stop() -> None:
    """Stop the server, even if processes use it. Its data stay.

    Workers that use it go on as soon as it is started again.

      callboard server stop
    """
    from callboard.broker.redis.server.embedded import EmbeddedServer

    ran = asyncio.run(EmbeddedServer.stop())
    say("stopped; its data stay in .callboard/" if ran else "no server runs in .callboard/ of this folder")


def status(as_json: AsJson = False) -> int:
    """Say whether the server runs, and where.

      callboard server status
      callboard server status --json

    Exit codes: 0 it runs, 3 it does not.
    """
    from callboard.broker.redis.server.embedded import EmbeddedServer

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
    """Prints where a server is."""
    if as_json:
        from dataclasses import asdict

        print_json(asdict(found))
        return
    stays = "it stays until `callboard server stop`" if found.persistent else "it stops with its last user"
    say(f"the server runs as process {found.pid}; {stays}")
    say(f"  url     {found.url}")
    say(f"  cli     redis-cli -s {shlex.quote(str(found.socket_path))}")
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
    from callboard.broker.redis.client.primary_watch import locate
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
