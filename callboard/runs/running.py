"""The global `run`."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any, Final, Unpack

from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams.local import Participant

from .beginning import task_with, team_of
from .beginning_on_bus import attached, begin_on_bus
from .checking import check
from .continuing import continued
from .errors import RunDeclarationError, RunUnknownError
from .local import ProcessRun, run_here
from .loop_thread import loop_thread
from .options import Previous, RunOptions
from .response import AsyncRunResponse
from .runtimes import take_in
from .steps import Steps, stepped
from .sync_response import RunResponse

ON_BUS: Final = ("conversation", "if_busy")


def run(*agents: Participant, **options: Unpack[RunOptions]) -> RunResponse:
    """Let agents carry out a task. It begins at once, in a thread of its own, and goes on by itself.

    One agent answers until it says its last message, executing its own tools. Two take turns, and the message goes to the
    first. More speak as the chat manager decides. Agents are copied first: they remember nothing of other runs, unless
    there is a `previous_run`.

    Works in ordinary programs, and in notebooks. Where code is async, use `a_run`.

    Args:
        *agents: ConversableAgents, any chat agents, or a team.
        **options: See RunOptions.

    Raises:
        RunDeclarationError: These can't make a run (a ValueError).
        RunUnknownError: There is no such previous run (a LookupError).
        LoopError: An agent of such a run calls it, or the runtime belongs to a program that is async (a RuntimeError).
    """
    thread = loop_thread()
    check(agents, options)
    runtime = options.get("runtime")
    if runtime is not None:
        take_in(runtime, thread, "run")
    response = thread.call(_begin(agents, options, is_async=False), "run()")
    return RunResponse(response, thread, is_here=isinstance(response.source, ProcessRun))


async def a_run(*agents: Participant, **options: Unpack[RunOptions]) -> AsyncRunResponse:
    """The same for async programs; see `run`. It lives in the event loop of the caller."""
    check(agents, options)
    return await _begin(agents, options, is_async=True)


def attach(
    runtime: RedisAgentRuntime, run_id: str, *, team: str | None = None, conversation: str | None = None
) -> RunResponse:
    """A run on the bus that somebody began, in whatever process, under way or over. Where code is async, use `a_attach`.

    Args:
        runtime: Reaches it; it is opened in the thread of the runs.
        run_id: Its id.
        team: Agent type of its team; None: it is looked up, as is the conversation.
        conversation: Id of its conversation.

    Raises:
        RunUnknownError: There is none, or not any more (a LookupError).
        LoopError: An agent of such a run calls it, or the runtime belongs to a program that is async (a RuntimeError).
    """
    thread = loop_thread()
    take_in(runtime, thread, "attach")
    found = thread.call(attached(runtime, run_id, team, conversation, is_async=False), "attach()")
    return RunResponse(AsyncRunResponse(found), thread, is_here=False)


async def a_attach(
    runtime: RedisAgentRuntime, run_id: str, *, team: str | None = None, conversation: str | None = None
) -> AsyncRunResponse:
    """The same for async programs; see `attach`. The runtime is one of theirs."""
    return AsyncRunResponse(await attached(runtime, run_id, team, conversation, is_async=True))


async def _begin(agents: tuple[Participant, ...], options: RunOptions, *, is_async: bool) -> AsyncRunResponse:
    runtime = options.get("runtime")
    if runtime is not None:
        return AsyncRunResponse(await begin_on_bus(runtime, agents, options, is_async=is_async))
    for key in ON_BUS:
        if options.get(key) is not None:
            raise RunDeclarationError(f"{key!r} is for runs on the bus: give run() a runtime as well.")
    return AsyncRunResponse(await _here(agents, options, is_async))


async def _here(agents: tuple[Participant, ...], options: RunOptions, is_async: bool) -> ProcessRun:
    run_id = options.get("run_id")
    known_run = run_here(run_id) if run_id else None
    # With the same id, again, the task is not carried out again, as on the bus.
    if known_run is not None:
        return _of_this_loop(known_run)
    team = team_of(agents, options).for_conversation()
    previous = _run_here_before(options.get("previous_run"))
    known: Mapping[str, Any] = {}
    if previous is not None:
        await continued(team, previous)  # it has ended then
        known = (await AsyncRunResponse(previous).so_far()).context_variables
    steps = Steps() if options.get("step") else None
    if steps is not None:
        stepped(team, steps)
    task = task_with(options.get("message"), known, options.get("context_variables"))
    budget = options.get("budget")
    return ProcessRun(run_id or uuid.uuid4().hex, team, task, steps=steps, is_async=is_async, budget=budget)


def _of_this_loop(found: ProcessRun) -> ProcessRun:
    if found.loop is not asyncio.get_running_loop():
        raise RunDeclarationError(
            f"The run {found.run_id!r} of this process lives in another event loop, as one of run() does where this is "
            "a_run(): go on with the response of that one."
        )
    return found


def _run_here_before(given: Previous | None) -> ProcessRun | None:
    if given is None:
        return None
    if isinstance(given, str):
        found = run_here(given)
        if found is None:
            raise RunUnknownError(
                given, "no run of this process has that id; on the bus, give the runtime as well."
            )
        return _of_this_loop(found)
    source = given.response.source if isinstance(given, RunResponse) else given.source
    if not isinstance(source, ProcessRun):
        raise RunDeclarationError(
            "The previous run was on the bus: give run() the runtime, so that it goes on there."
        )
    return _of_this_loop(source)
