"""`callboard reset`: agents with their default state again."""

from __future__ import annotations

from typing import Annotated

import typer

from callboard.cli.exits import CommandFailed, bad_use
from callboard.cli.options import Namespace, Url, split_names
from callboard.cli.output import say
from callboard.cli.sessions import check_type, control_of, operator, run


def reset(
    names: Annotated[
        list[str],
        typer.Argument(metavar="[MODULE:APP] TYPE/KEY...", help="The app, for its namespace; then agents."),
    ],
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Give agents their default state again. It goes before anything that is queued for them.

    A message that is being handled is finished first; queued messages stay and are handled afterwards. Exit codes: 0 all
    will be reset, 1 one of them has a reset waiting, 2 wrong use or no such agent type, 3 no server.

      callboard reset counting:app counter/ada
      callboard reset --namespace counting counter/ada counter/bob
    """
    from callboard.broker import AgentId

    target, agents = split_names(names)
    if not agents or any("/" not in name for name in agents):
        bad_use("say which agents, as TYPE/KEY")

    async def work() -> list[str]:
        async with operator(target, url, namespace) as transport:
            for name in agents:
                await check_type(transport, name.partition("/")[0])
            control = control_of(transport)
            return [name for name in agents if not await control.reset(AgentId.from_str(name))]

    refused = run(work())
    for name in agents:
        if name not in refused:
            say(f"{name} will be reset")
    if refused:
        raise CommandFailed(f"a reset waits already: {', '.join(refused)}")
