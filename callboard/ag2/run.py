"""Group chats of patterns as runs, with AG2's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from callboard.agents.base import Task
from callboard.errors import DeclarationError
from callboard.groupchat import ConversationMessage
from callboard.groupchat.messages import Message
from callboard.runs.launch import RunOptions, a_run, run, take_in
from callboard.runs.response import AsyncRunResponse, RunResponse, loop_thread
from callboard.runs.team import name_of
from callboard.runtime.runtime import on_bus
from callboard.teams.group_chat import BaseGroupChat, host

from .pattern import Pattern

USER = "user"
MAX_ROUNDS = 20


def run_group_chat(
    pattern: Pattern,
    messages: Sequence[Message] | str,
    max_rounds: int = MAX_ROUNDS,
    **options: Unpack[RunOptions],
) -> RunResponse:
    """Let the agents of a pattern chat, as a run: copies of them, which remember nothing, unless there is a `previous_run`.

    With a `runtime` the run is on the bus, and this runtime hosts the agents, under the `name` of the team: those that it
    hosts already stay. For processes of their own, give `run` what `Pattern.team` makes. Without a `user_agent` in the
    pattern there is no answer for the user.

    Args:
        pattern: Who takes part, and how they hand over.
        messages: A text, which the user says, or messages.
        max_rounds: How many messages there are at most, the first one included.
        **options: See RunOptions; the messages take the place of its `message`. Context variables are those of the
            pattern, where it is not a `conversation` or a `previous_run` that goes on with its own, and more of these.

    Raises:
        GroupChatDeclarationError: The pattern can't be (a ValueError).
        DeclarationError: There is no message, a context variable is no plain data, or an option is not for patterns
            (a ValueError).
        MisuseError: Code that is async calls it: there is `a_run_group_chat` (a RuntimeError).
    """
    team, given = _team(pattern, max_rounds, options), _options(pattern, messages, options)
    runtime = options.get("runtime")
    if runtime is not None:
        thread, bus = loop_thread(), on_bus(runtime)
        take_in(bus, thread, "run_group_chat")
        thread.call(host(team, bus, team.name), "run_group_chat()")
    return run(team, **given)


async def a_run_group_chat(
    pattern: Pattern,
    messages: Sequence[Message] | str,
    max_rounds: int = MAX_ROUNDS,
    **options: Unpack[RunOptions],
) -> AsyncRunResponse:
    """The same for async programs; see `run_group_chat`."""
    team, given = _team(pattern, max_rounds, options), _options(pattern, messages, options)
    runtime = options.get("runtime")
    if runtime is not None:
        await host(team, on_bus(runtime), team.name)
    return await a_run(team, **given)


def _team(pattern: Pattern, max_rounds: int, options: RunOptions) -> BaseGroupChat:
    name = options.get("name") or pattern.group_manager_args.get("name") or name_of(pattern.everybody())
    return pattern.team(name=name, max_rounds=max_rounds, emit_team_events=True)


def _options(pattern: Pattern, messages: Sequence[Message] | str, options: RunOptions) -> RunOptions:
    if "message" in options:
        raise DeclarationError("The messages of a group chat are its second argument: leave out `message`.")
    given: dict[str, Any] = {key: value for key, value in options.items() if key != "name"}
    # A conversation that goes on has the variables that it ended with: those of the pattern are where it began.
    goes_on = options.get("previous_run") is not None or options.get("conversation") is not None
    began: Mapping[str, Any] = {} if goes_on else pattern.context_variables
    variables = {**began, **(options.get("context_variables") or {})}
    # What nothing stands for is there from the declaration; in a run None is the same as not there.
    given["context_variables"] = {name: value for name, value in variables.items() if value is not None}
    return {**given, "message": _task(pattern, messages)}  # type: ignore[typeddict-item]


def _task(pattern: Pattern, messages: Sequence[Message] | str) -> Task:
    given = [{"content": messages}] if isinstance(messages, str) else messages
    if not given:
        raise DeclarationError("A group chat begins with a message: there is none.")
    user = USER if pattern.user_agent is None else pattern.user_agent.name
    unsaid = {"role": "user", "name": user, "content": ""}
    said = [{**unsaid, **{key: value for key, value in one.items() if value}} for one in given]
    return [ConversationMessage(data=one, source=str(one["name"])) for one in said]
