"""The process of a command: its streams, its log, and the error that ends it as an exit code."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from callboard.process import FORK_SERVER, loading

from .exits import BROKEN_PIPE, DEBUG, GROUPS, INTERRUPTED, code_of, complain, sentence_of
from .output import OutputClosedError
from .worker_line import COMMAND as WORKER, read_worker_line


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit.

    Args:
        arguments: Without the program's name; None: those of this process.
    """
    _have_streams()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == [FORK_SERVER]:
        # What follows is done by each worker that it makes, with a command line of its own.
        given = _forked(given[1:])
    own = given[: given.index("--")] if "--" in given else given
    debug = DEBUG in own
    if debug:
        given.remove(DEBUG)
    if debug or given[:1] != [WORKER]:  # a worker's settings say how it logs, and its app may have set it up
        _set_up_logging(debug)
    with loading():  # most commands do little else; a worker has a number of its own once it works
        sys.exit(_run(given, debug))


def _forked(words: Sequence[str]) -> list[str]:
    from callboard.process.fork_server import serve

    from . import worker_process as _  # noqa: F401 - what all workers share

    line, target = words
    with loading():
        found = serve(int(line), target)
    if found is None:
        sys.exit(0)
    return found


def _run(arguments: list[str], debug: bool) -> int:
    try:
        code = _carry_out(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except (OutputClosedError, BrokenPipeError):
        _forget_stdout()
        return BROKEN_PIPE
    except Exception as error:  # noqa: BLE001 - the one place where any error becomes a sentence and an exit code
        from callboard.process.printer import unhindered

        with unhindered():
            return _explain(error, debug, arguments)
    return code


def _carry_out(arguments: list[str]) -> int:
    # typer and what it reads of all options stay in memory as long as the process, so a worker goes without it.
    if (line := read_worker_line(arguments)) is not None:
        from .worker_process import work

        return work(line)
    from .command_line import run_command

    return run_command(arguments)


def _explain(error: Exception, debug: bool, arguments: Sequence[str]) -> int:
    if debug:
        import traceback

        traceback.print_exception(error)
    command = _command_of(arguments)
    complain(sentence_of(error, command))
    return code_of(error, command)


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
    # What its encoding lacks is shown as on stderr: it fails no command that has done its work, and no handler that prints.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


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
