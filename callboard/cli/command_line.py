"""The command line by typer: it reads options, shows help, and says what is wrong."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from callboard.foundation.texts import printable

from .commands import COMMANDS, add_commands
from .exits import BAD_USE, DEBUG, INTERRUPTED, complain
from .options import help_of

_USAGE_ERRORS: tuple[type[Any], ...] = typer.BadParameter.__mro__[2:3]


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"callboard {version('callboard')}")
        except PackageNotFoundError:
            print("callboard (from a checkout that is not installed)")
        raise typer.Exit


def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option(DEBUG, help="Log what happens, and show tracebacks; also after a command's name.")
    ] = False,
) -> None:
    """Durable actors on Redis: every message is handled exactly once in effect.

    An app is named module:app, such as counting:app for `app = App(...)` in counting.py. The server is --url,
    else CALLBOARD_URL, else REDIS_URL, else one that callboard starts by itself and that keeps its data in
    .callboard/.

      A first app:
        callboard init hello && cd hello
        callboard up app:app                                in one terminal
        callboard publish app:app visits Visit name=Ada     in another
        callboard ask app:app counter/default HowMany
    """


def command_line(wanted: str = "") -> typer.Typer:
    """The whole command line, or the part of it that a command needs.

    Reading the options of every command takes longer than most commands do.

    Args:
        wanted: A command's name; where there is none of that name, every command is there, to be listed.
    """
    made = typer.Typer(
        name="callboard",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    add_commands(made, {wanted: COMMANDS[wanted]} if wanted in COMMANDS else COMMANDS)
    made.callback(help=help_of(root))(root)
    return made


def run_command(arguments: Sequence[str]) -> int:
    """Run a command; return the exit code.

    Raises:
        Exception: what ended the command, other than wrong use.
    """
    try:
        result = command_line(arguments[0] if arguments else "")(
            list(arguments), prog_name="callboard", standalone_mode=False
        )
    except typer.Abort:
        return INTERRUPTED
    except typer.Exit as error:
        return error.exit_code
    except Exception as error:
        # What typer raises for wrong use can show itself; where its class lives depends on the version of typer.
        if not isinstance(error, _USAGE_ERRORS):
            raise
        return _explain(error, arguments[0] if arguments else "")
    return result if isinstance(result, int) else 0


MEANT: Final[Mapping[str, str]] = {
    "start": "`callboard up MODULE:APP` runs an app, `callboard server start` a server",
    "run": "`callboard up MODULE:APP` runs an app, `callboard worker MODULE:APP` one process of it",
    "stop": "Ctrl-C, or `kill -TERM`, ends `callboard up` and `callboard worker` when their handlers are done; "
    "`callboard pause` holds messages back",
    "restart": "`callboard up --reload` starts the processes anew when their code changes",
    "ps": "`callboard status` shows types, processes and what waits",
    "list": "`callboard status` lists agent types, `callboard topics` topics, `callboard runs list` runs",
    "logs": "`callboard up` shows the logs of its processes, `callboard tail` messages, `callboard runs follow` a run",
    "send": "`callboard publish` publishes to a topic, `callboard ask` asks one agent",
}
"""Commands that other tools have, and the one here that does it."""


def _explain(error: Any, name: str) -> int:
    from callboard.process.printer import unhindered

    with unhindered():
        if name in MEANT:
            complain(f"there is no command {name!r}: {MEANT[name]}")
        else:
            shown = io.StringIO()
            error.show(file=shown)
            # What was typed may have been pasted from elsewhere.
            print(printable(shown.getvalue()), end="", file=sys.stderr)
    return BAD_USE
