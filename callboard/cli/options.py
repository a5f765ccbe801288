"""Arguments and options that several commands share."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Final

import typer
from typer.core import TyperCommand

from .exits import bad_use
from .worker_line import seconds_of


def duration(text: str) -> float:
    """Seconds of a duration such as `90s`, `1h30m`, `2d` or `500ms`; a plain number is seconds.

    Raises:
        BadParameter: It is something else.
    """
    try:
        return seconds_of(str(text))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


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
        help="Server: redis://, rediss://, redis+sentinel:// or unix://. Default: CALLBOARD_URL, REDIS_URL, embedded.",
    ),
]
Namespace = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Default: what the app was made with, CALLBOARD_NAMESPACE, the app's name; without an app `main`.",
    ),
]
ServeAll = Annotated[bool, typer.Option("--all", help="Serve every team, not only those with serve=True.")]
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
    """Add a command whose help is its function's docstring; indented paragraphs are shown as they are."""
    app.command(name, cls=cls, help=help_of(function))(function)


def help_of(function: Callable[..., Any]) -> str:
    """The docstring of a function, with the mark that keeps a paragraph's lines where it is indented."""
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    return "\n\n".join(f"\b\n{text}" if text.startswith("  ") else text for text in paragraphs)


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


NEGATIVE: Final = re.compile(r"-\.?\d")
MARK: Final = "\0"  # in no argument of a process


class NumberCommand(NamingCommand):
    """A command to which a negative number is no option; its function takes the mark off by `unmarked`.

    Its arguments may be empty texts, as an answer is.
    """

    checks_arguments: ClassVar[bool] = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Let the parser see no dash in front of a number."""
        return super().parse_args(ctx, [MARK + arg if NEGATIVE.match(arg) else arg for arg in args])


def unmarked(args: Sequence[str] | None) -> list[str]:
    """The arguments as they were typed."""
    return [arg.removeprefix(MARK) for arg in args or ()]
