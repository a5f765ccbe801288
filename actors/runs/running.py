"""The global `run`."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final, Unpack

from callboard.agents.task import Task, task_messages
from callboard.messages.base import BaseChatMessage
from callboard.teams.local import Participant

from . import variables
from .continuing import continued
from .errors import RunDeclarationError, RunUnknownError
from .local import LocalRun, run_here
from .loop_thread import loop_thread
from .options import Previous, RunOptions
from .response import AsyncRunResponse
from .steps import Steps, stepped
from .sync_response import RunResponse
from .team import run_team

OF_TEAM: Final = ("chat_manager", "max_turns", "termination", "tools", "is_termination_message", "name")


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
        LoopError: An agent of such a run calls it (a RuntimeError).
    """
    thread = loop_thread()
    response = thread.call(_begin(agents, options, is_async=False), "run()")
    return RunResponse(response, thread, is_here=isinstance(response.source, LocalRun))


async def a_run(*agents: Participant, **options: Unpack[RunOptions]) -> AsyncRunResponse:
    """The same for async programs; see `run`. It lives in the event loop of the caller."""
    return await _begin(agents, options, is_async=True)


async def _begin(agents: tuple[Participant, ...], options: RunOptions, *, is_async: bool) -> AsyncRunResponse:
    unknown = options.keys() - RunOptions.__annotations__.keys()
    if unknown:
        raise RunDeclarationError(
            f"run() has no argument {min(unknown)!r}; it takes {sorted(RunOptions.__annotations__)}."
        )
    return AsyncRunResponse(await _here(agents, options, is_async))


async def _here(agents: tuple[Participant, ...], options: RunOptions, is_async: bool) -> LocalRun:
    of_team: Any = {key: options[key] for key in OF_TEAM if key in options}  # type: ignore[literal-required]
    team = run_team(*agents, **of_team).for_conversation()
    previous = _previous(options.get("previous_run"))
    known: Mapping[str, Any] = {}
    if previous is not None:
        known = (await AsyncRunResponse(previous).so_far()).context_variables
        await continued(team, previous)
    steps = Steps() if options.get("step") else None
    if steps is not None:
        stepped(team, steps)
    task = _task(options.get("message"), {**known, **(options.get("context_variables") or {})})
    return LocalRun(options.get("run_id") or uuid.uuid4().hex, team, task, steps=steps, is_async=is_async)


def _previous(given: Previous | None) -> LocalRun | None:
    if given is None:
        return None
    if isinstance(given, str):
        found = run_here(given)
        if found is None:
            raise RunUnknownError(
                given, "no run of this process has that id; on the bus, give the runtime as well."
            )
        return found
    source = given.response.source if isinstance(given, RunResponse) else given.source
    if not isinstance(source, LocalRun):
        raise RunDeclarationError(
            "The previous run was on the bus: give run() the runtime, so that it goes on there."
        )
    return source


def _task(message: Task, known: Mapping[str, Any]) -> list[BaseChatMessage] | None:
    """The task with what is known besides."""
    messages = task_messages(message)
    if not known:
        return messages or None
    if not messages:
        raise RunDeclarationError("Context variables go with a message: give run() a message as well.")
    first = messages[0].model_copy(deep=True)
    first.metadata.update(variables.written(known))
    return [first, *messages[1:]]
