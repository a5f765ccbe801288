"""Negative numbers on a command line: values of arguments, where everything else that begins with a dash is an option."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

from .options import NamingCommand

if TYPE_CHECKING:
    from collections.abc import Sequence

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
