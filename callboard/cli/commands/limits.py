"""`callboard limits`: what is used of the limits of models, and when there is room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from callboard.cli.options import AsJson, Namespace, OptionalTarget, Url
from callboard.cli.output import duration, hint, print_json, say, say_table
from callboard.cli.sessions import run, seen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from callboard.broker.redis.operations.windows import WindowLimit

SHOWN = 50


def limits(
    target: OptionalTarget = None,
    url: Url = None,
    namespace: Namespace = None,
    every: Annotated[bool, typer.Option("--all", help=f"All of them, not the first {SHOWN}.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what is used of the limits of models.

    These are limits of a minute or a day; it says when there is room. The fullest come first.

    Only those of which something is used, and of processes that share one server: `Budget(..., every="minute")`.

      callboard limits office:app
      callboard limits --namespace office --json

    Exit codes: 0 shown, 2 wrong use or no such namespace, 3 no server.
    """

    async def read() -> Sequence[WindowLimit]:
        from callboard.broker.redis.operations.windows import window_limits

        async with seen(target, url, namespace) as transport:
            return await window_limits(transport)

    found = run(read())
    shown = found if every or as_json else found[:SHOWN]
    if as_json:
        print_json(found)
    elif not found:
        say("nothing is used of any limit of a minute or a day")
    else:
        say_table(("LIMIT OF", "IN", "USED", "ROOM"), [_row(one) for one in shown])
        if len(shown) < len(found):
            hint(f"{len(found) - len(shown)} more are less full: --all shows them.")


def _row(one: WindowLimit) -> tuple[object, ...]:
    unit = "USD" if one.unit == "usd" else one.unit
    used = f"{one.used:,.6g} of {one.limit:,.6g} {unit}"
    return (one.scope, duration(one.seconds), used, f"in {duration(one.room_in)}" if one.room_in else "now")
