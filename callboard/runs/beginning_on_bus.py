"""A run on the bus: its team is there, or is hosted by the runtime that was given."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams.client import TeamClient
from callboard.teams.errors import RunNotFoundError
from callboard.teams.group_chat import BaseGroupChat
from callboard.teams.hosting import host
from callboard.teams.listing import find_run
from callboard.teams.local import Participant

from .beginning import task_with, team_of
from .bus import BusRun
from .errors import RunDeclarationError, RunUnknownError
from .options import Previous, RunOptions
from .response import AsyncRunResponse


async def begin_on_bus(
    runtime: RedisAgentRuntime, agents: Sequence[Participant], options: RunOptions, *, is_async: bool
) -> BusRun:
    """Begin a run.

    Agents are hosted by the runtime; a team that is given is expected to run somewhere, as an App declares it.
    """
    step = bool(options.get("step"))
    team = team_of(agents, options)
    if not (len(agents) == 1 and team is agents[0]):
        await host(team, runtime, team.name)
    previous = await _run_before(runtime, options.get("previous_run"))
    client = team.on(runtime, _conversation(team, previous, options))
    await runtime.check_reading(client.team)
    run_id, task = options.get("run_id"), task_with(options.get("message"), options.get("context_variables"))
    if_busy = options.get("if_busy", "reject")
    budget = options.get("budget")
    run_id = await client.start(task=task, if_busy=if_busy, run_id=run_id, budget=budget, step=step)
    return BusRun(client, run_id, is_async=is_async, steps=step)


async def attached(
    runtime: RedisAgentRuntime,
    run_id: str,
    team: str | None = None,
    conversation: str | None = None,
    *,
    is_async: bool = True,
) -> BusRun:
    """A run that somebody began; see `attach`."""
    if team is not None and conversation is not None:
        return BusRun(TeamClient(runtime, team, conversation), run_id, is_async=is_async)
    try:
        found = await find_run(runtime, run_id, team=team)
    except RunNotFoundError as error:
        raise RunUnknownError(run_id, error.reason) from error
    if not found.team:
        raise RunUnknownError(run_id, "its beginning is not kept any more: name its team and conversation.")
    client = TeamClient(runtime, found.team, found.conversation)
    return BusRun(client, found.run_id, is_async=is_async)


async def _run_before(runtime: RedisAgentRuntime, given: Previous | None) -> BusRun | None:
    if given is None:
        return None
    if isinstance(given, str):
        return await attached(runtime, given)
    source = given.source if isinstance(given, AsyncRunResponse) else given.response.source
    if not isinstance(source, BusRun):
        raise RunDeclarationError(
            "The previous run was in a process: leave the runtime out, so that it goes on there."
        )
    return source


def _conversation(team: BaseGroupChat, previous: BusRun | None, options: RunOptions) -> str:
    """The conversation of the run before, the one that is given, or a new one."""
    given = options.get("conversation")
    if previous is None:
        # The same id of a run again has to lead to the same run.
        own = options.get("run_id") if given is None else given
        return uuid.uuid4().hex if own is None else own
    if previous.team.team != team.name:
        raise RunDeclarationError(
            f"The previous run was one of the team {previous.team.team!r}, and this one is of {team.name!r}: "
            "on the bus a run goes on with the same team; `name=` names it."
        )
    if given not in (None, previous.team.conversation):
        raise RunDeclarationError(
            f"The previous run was in the conversation {previous.team.conversation!r}, and {given!r} is another one."
        )
    return previous.team.conversation
