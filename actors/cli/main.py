"""Puts the commands together, and turns the error that ends one into an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from callboard.process.frozen import loading

from .commands import COMMANDS, GROUPS, add_commands
from .exits import BAD_USE, BROKEN_PIPE, INTERRUPTED, code_of, complain, sentence_of
from .options import help_of
from .output import OutputClosedError

DEBUG = "--debug"
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


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line and exits.

    Args:
        arguments: Without the program's name; None: those of this process.
    """
    _have_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    own = given[: given.index("--")] if "--" in given else given
    debug = DEBUG in own
    if debug:
        given.remove(DEBUG)
    _set_up_logging(debug)
    with loading():  # most commands do little else; a worker has a number of its own once it works
        sys.exit(_run(given, debug))


def _run(arguments: list[str], debug: bool) -> int:
    try:
        line = command_line(arguments[0] if arguments else "")
        result = line(arguments, prog_name="callboard", standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except (OutputClosedError, BrokenPipeError):
        _forget_stdout()
        return BROKEN_PIPE
    except typer.Exit as error:
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - the one place where any error becomes a sentence and an exit code
        from callboard.process.printing import unhindered

        with unhindered():
            return _explain(error, debug, arguments)
    return result if isinstance(result, int) else 0


def _explain(error: Any, debug: bool, arguments: Sequence[str]) -> int:
    # What typer raises for wrong use can show itself; where its class lives depends on the version of typer.
    if isinstance(error, _USAGE_ERRORS):
        error.show()
        return BAD_USE
    if debug:
        import traceback

        traceback.print_exception(error)
    complain(sentence_of(error, _command_of(arguments)))
    return code_of(error)


def _command_of(arguments: Sequence[str]) -> str:
    """The name of the command, such as `status` or `dead list`."""
    words = [word for word in arguments if not word.startswith("-")][:2]
    is_group = bool(words) and words[0] in GROUPS
    return " ".join(words if is_group else words[:1])


def _have_streams() -> None:
    """A process that was started with closed streams gets ones that lead nowhere: the next files would take their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the lowest first: each gets the number that is free
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open to the end


def _forget_stdout() -> None:
    # Python flushes stdout at exit and would complain about the closed pipe once more.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _set_up_logging(debug: bool) -> None:
    import logging

    logging.basicConfig(
        level=logging.DEBUG if debug else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s"
        if debug
        else "%(levelname)s %(name)s: %(message)s",
    )
