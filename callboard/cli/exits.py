"""Exit codes, errors as one sentence, and words of the command line that are known without typer."""

from __future__ import annotations

from typing import Final, NoReturn

from callboard.foundation import ActorError, CallboardError
from callboard.foundation.texts import one_line, shell_line

DEBUG: Final = "--debug"
"""Given anywhere before `--`."""

GROUPS: Final = ("types", "runs", "schedules", "dead", "memory", "server")
"""The commands that are groups of commands."""

FAILED = 1
BAD_USE = 2
UNREACHABLE = 3
TIMED_OUT = 4
UNHEARD = 5
INTERRUPTED = 130
BROKEN_PIPE = 141

ROLES = {
    **dict.fromkeys(("up", "worker", "demo"), "worker"),
    **dict.fromkeys(("publish", "ask"), "publisher"),
    "deploy": "deploy",
}
"""The role of `callboard acl` that a command needs; the others need an operator."""


WORKING = ("up", "worker")
"""The commands that a supervisor starts again when they fail."""


class CommandFailed(ActorError):
    """A command can't go on."""

    template = "{sentence}"

    sentence: str
    code: int = FAILED


def bad_use(sentence: str) -> NoReturn:
    """End the command with the exit code for wrong use."""
    raise CommandFailed(sentence, BAD_USE)


def code_of(error: BaseException, command: str = "") -> int:
    """The exit code for an error that ended a command of this name."""
    from callboard.broker.errors import (
        CommandError,
        InvalidIdError,
        LayoutError,
        RequestTimeoutError,
        ServerNotFoundError,
        ServerUnavailableError,
        SettingsError,
        is_refused_right,
    )
    from callboard.broker.redis.embedded import ServerStartError
    from callboard.errors import (
        DeclarationError,
        DuplicateAgentTypeError,
        SettingValueError,
        UnheardError,
        UnknownNameError,
    )
    from callboard.memory.errors import MemoryValueError, StoreUnavailableError
    from callboard.process.worker import UNFIT, WorkerProcessError

    if isinstance(error, CommandFailed):
        return error.code
    if isinstance(error, WorkerProcessError) and error.is_unfit:
        return UNFIT
    if command in WORKING and isinstance(error, CommandError) and is_refused_right(str(error)):
        return UNFIT
    if isinstance(
        error,
        ServerUnavailableError | ServerNotFoundError | ServerStartError | StoreUnavailableError,
    ):
        return UNREACHABLE
    if isinstance(error, RequestTimeoutError):
        return TIMED_OUT
    if isinstance(error, UnheardError):
        return UNHEARD
    if isinstance(
        error,
        InvalidIdError
        | LayoutError
        | SettingsError
        | DeclarationError
        | DuplicateAgentTypeError
        | SettingValueError
        | UnknownNameError
        | MemoryValueError,
    ):
        return BAD_USE
    return FAILED


def sentence_of(error: BaseException, command: str = "") -> str:
    """The sentence that tells a person what went wrong: our own errors as they are, others with their class.

    Args:
        error: What ended the command.
        command: Its name, such as `status`: a user of the server who may not do what it does is told which role may.
    """
    from callboard.broker.errors import CommandError, is_refused_right

    role = ROLES.get(command, "operator")
    undeclared = isinstance(error, CommandError) and error.undeclared_in
    if isinstance(error, CommandError) and error.is_undeployed:
        return str(error)  # another user has to do something first
    if undeclared and role == "publisher":
        return str(error)  # rights to publish are enough, once a worker was there
    if isinstance(error, CommandError) and is_refused_right(str(error)):
        cause = error.__cause__ if undeclared and error.__cause__ else error
        return _refusal(str(cause), error.namespace or error.undeclared_in, command, role)
    if isinstance(error, CallboardError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
        return f"{text}{_notes_of(error)}"
    return f"unexpected {type(error).__name__}: {error}{_notes_of(error)} (--debug shows where)"


def _refusal(said: str, namespace: str, command: str, role: str) -> str:
    """What a user of the server lacks. The same role in another namespace is no right in this one."""
    does = f"what `callboard {command}` does"
    if "'function|" in said:
        role, place = "deploy", ""  # functions are of all namespaces
        rules = shell_line("callboard", "acl", role)
    else:
        place = f" in the namespace {namespace!r}" if namespace else ""
        rules = shell_line("callboard", "acl", role, "--namespace", namespace or "NAME")
    there = " there" if place else ""
    return (
        f"the user that you log in as may not do {does}{place}: it needs the role {role}{there}, and "
        f"`{rules}` prints its rules. The server says: {said}"
    )


def _notes_of(error: BaseException) -> str:
    """The notes of an error, such as which resource was being opened, as the end of its sentence."""
    return "".join(f", {one_line(note)}" for note in getattr(error, "__notes__", ()))


def complain(text: str) -> None:
    """One line on stderr; on a terminal as many as it takes, which end between words."""
    from .output import hint

    hint(" ".join(text.split()))
