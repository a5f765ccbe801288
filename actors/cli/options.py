"""Arguments and options that several commands share."""

from __future__ import annotations

import contextlib
import inspect
import logging
import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import typer
from typer.core import TyperCommand

from .exits import bad_use

if TYPE_CHECKING:
    from callboard.app import App
    from callboard.broker import BrokerSettings

UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_AMOUNT = r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)"


def duration(text: str) -> float:
    """Seconds of a duration such as `90s`, `1h30m`, `2d` or `500ms`; a plain number is seconds.

    Raises:
        BadParameter: It is something else.
    """
    text = str(text).strip().lower()
    with contextlib.suppress(ValueError):
        if math.isfinite(plain := float(text)) and plain >= 0:
            return plain
    if not re.fullmatch(rf"(?:{_AMOUNT}\s*)+", text):
        raise typer.BadParameter(
            f"{text!r} is no duration: write 90s, 1h30m, 2d or 500ms; a plain number is seconds"
        )
    return sum(float(number) * UNITS[unit] for number, unit in re.findall(_AMOUNT, text))


def positive_duration(text: str) -> float:
    """As `duration`, but longer than nothing."""
    seconds = duration(text)
    if seconds <= 0:
        raise typer.BadParameter(f"{text!r} has to be longer than 0")
    return seconds


Target = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:APP", help="The app, such as counting:app for `app = App(...)` in counting.py."
    ),
]
OptionalTarget = Annotated[
    str | None,
    typer.Argument(metavar="[MODULE:APP]", help="The app, for its namespace; or give --namespace."),
]
Url = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Server: redis://, rediss:// or unix://. Default: CALLBOARD_URL, REDIS_URL, embedded.",
    ),
]
Namespace = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Default: what the app was made with, CALLBOARD_NAMESPACE, the app's name; without an app `main`.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Body = Annotated[
    str | None, typer.Option("--body", metavar="JSON", help="The message as JSON, instead of fields.")
]
Grace = Annotated[
    float | None,
    typer.Option(
        metavar="DURATION",
        parser=duration,
        help="How long running handlers may take to finish when it stops. Default: drain_grace, 30 s.",
    ),
]
MaxMemory = Annotated[
    str | None,
    typer.Option(
        "--max-memory",
        metavar="SIZE",
        help="Resident memory, such as 500MB, after which a process drains and is replaced. Default: max_memory, no limit.",
    ),
]
MaxMessages = Annotated[
    int | None,
    typer.Option(
        "--max-messages",
        metavar="N",
        min=0,
        help="Messages after which a process drains and is replaced. Default: max_messages, no limit.",
    ),
]
Fields = Annotated[
    list[str] | None,
    typer.Argument(metavar="[FIELD=VALUE]...", help="Its fields; values are JSON where possible, else text."),
]


class NamingCommand(TyperCommand):
    """A command that refuses empty texts: `"$RUN"` of a shell that has no such variable names nothing.

    Attributes:
        checks_arguments: Whether that is so of its arguments, as it is of its options.
    """

    checks_arguments: ClassVar[bool] = True

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments.

        Raises:
            BadParameter: One of them is empty.
        """
        left = super().parse_args(ctx, args)
        parameters: list[Any] = list(self.params)
        for parameter in parameters:
            name, is_option = parameter.name or "", parameter.param_type_name == "option"
            if (
                (is_option or self.checks_arguments)
                and _is_empty(ctx.params.get(name))
                and _is_given(ctx, name)
            ):
                what = "" if parameter.required else ", or leave it out"
                sentence = f"it is empty: give a value{what}; perhaps a variable of the shell is not set"
                raise typer.BadParameter(sentence, ctx=ctx, param=parameter)
        return left


def _is_empty(value: object) -> bool:
    return value == "" or (isinstance(value, list | tuple) and "" in value)


def _is_given(ctx: Any, name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def command(
    app: typer.Typer, name: str, function: Callable[..., Any], cls: type[TyperCommand] = NamingCommand
) -> None:
    """Adds a command whose help is its function's docstring; indented paragraphs are shown as they are."""
    app.command(name, cls=cls, help=help_of(function))(function)


def help_of(function: Callable[..., Any]) -> str:
    """The docstring of a function, with the mark that keeps a paragraph's lines where it is indented."""
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    return "\n\n".join(f"\b\n{text}" if text.startswith("  ") else text for text in paragraphs)


def check_types(app: App, names: list[str]) -> None:
    """Refuses agent types that the app does not declare.

    Raises:
        UnknownAgentTypeError: with the nearest name that it has.
    """
    for name in names:
        app[name]


def split_names(names: Sequence[str]) -> tuple[str | None, list[str]]:
    """`module:app` if it is the first of these arguments, and the others.

    The colon of an agent such as `basket/user:42`, or of a letter, is behind a slash.
    """
    module, colon, _ = names[0].partition(":") if names else ("", "", "")
    if colon and ("/" not in module or module.endswith(".py")):
        return names[0], list(names[1:])
    return None, list(names)


def split_counts(texts: list[str], option: str) -> dict[str, int]:
    """`writer=3` as a name and a number."""
    counts: dict[str, int] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if not name or not number.isdecimal():
            bad_use(f"{option} {text} can't be read: write {option} {name or 'writer'}=3")
        counts[name] = int(number)
    return counts


def grace_of(given: float | None, settings: BrokerSettings) -> float:
    """Seconds of the grace period."""
    return settings.drain_grace if given is None else given


def with_limits(settings: BrokerSettings, max_memory: str | None, max_messages: int | None) -> BrokerSettings:
    """The settings with the limits of a worker process that the command line gives."""
    from dataclasses import replace

    from callboard.broker.settings import parse_size

    memory = settings.max_memory if max_memory is None else parse_size(max_memory)
    messages = settings.max_messages if max_messages is None else max_messages
    return replace(settings, max_memory=memory, max_messages=messages)


def worker_options(settings: BrokerSettings) -> tuple[str, ...]:
    """What the processes of `callboard up` are told besides their type: these limits, and --debug where it was given."""
    debug = ("--debug",) if logging.getLogger().isEnabledFor(logging.DEBUG) else ()
    return ("--max-memory", str(settings.max_memory), "--max-messages", str(settings.max_messages), *debug)
