"""The conversation of a team, held by a command."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from callboard.core.cancellation import CancellationToken
from callboard.foundation.texts import shell_line

from .exits import FAILED, CommandFailed, bad_use
from .output import print_json, remark

if TYPE_CHECKING:
    from callboard.app import App
    from callboard.broker import AgentId
    from callboard.runtime.runtime import RedisAgentRuntime
    from callboard.teams.protocol import IfBusy


@dataclass(frozen=True, slots=True)
class TeamTask:
    """A task for a team, as the command line gives it.

    Attributes:
        team: Its name.
        conversation: Id of the conversation; the same one goes on with it.
        task: What to do; "": go on.
        if_busy: What to do when the conversation has a run under way.
        as_json: Print each message as a line of JSON, without pieces of texts.
    """

    team: str
    conversation: str
    task: str
    if_busy: IfBusy
    as_json: bool


async def ask_team(runtime: RedisAgentRuntime, asked: TeamTask, token: CancellationToken) -> None:
    """Give a team a task, and print what is said until the run has ended.

    Args:
        runtime: Reaches the team.
        asked: The task.
        token: Cancels the run.
    """
    from callboard.agents.errors import AgentError
    from callboard.teams import TeamBusyError, TeamClient, TeamError
    from callboard.ui import Console

    client = TeamClient(runtime, asked.team, asked.conversation)
    stream = client.run_stream(task=asked.task or None, cancellation_token=token, if_busy=asked.if_busy)
    try:
        if asked.as_json:
            await print_lines(stream)
        else:
            await Console(stream, output_stats=True, answers=client, by=user_name())
    except TeamBusyError as error:
        raise CommandFailed(
            f"the conversation {asked.conversation!r} of {asked.team} has a run under way: wait for its end, "
            "or say --if-busy enqueue or --if-busy interrupt",
            FAILED,
        ) from error
    except (TeamError, AgentError) as error:
        raise CommandFailed(str(error), FAILED) from error
    if not asked.as_json:
        remark(f"callboard: go on with --conversation {asked.conversation}")


def user_name() -> str:
    """Who sits here: the name of the system's user; "" where there is none."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


async def print_lines(stream: Any) -> None:
    """Print what a run's stream yields, each message as a line of JSON, without pieces of texts."""
    from callboard.agents import TaskResult
    from callboard.teams.loop import is_kept

    async with aclosing(stream) as items:
        async for item in items:
            if isinstance(item, TaskResult):
                print_json({"stop_reason": item.stop_reason}, indent=None)
            elif is_kept(item):
                print_json(item.dump(), indent=None)


def types_of(app: App, team: str) -> list[str]:
    """The agent types of a team: its manager first, then its members."""
    return [team, *(known.type for known in app.declarations if known.type.startswith(f"{team}."))]


def check_is_no_team(recipient: AgentId, text: str, app: App) -> None:
    """Refuse a task that is sent to an agent of a team: that takes messages of teams only."""
    name = recipient.type.partition(".")[0]
    if name not in app.teams or text in app.message_types():
        return
    what = "is a team" if recipient.type == name else f"belongs to the team {name}"
    example = shell_line("callboard", "ask", "MODULE:APP", name, "the task", "--conversation", recipient.key)
    bad_use(f"{recipient.type} {what}, which is given a task: {example}")


def what_if_busy(value: str) -> IfBusy:
    """The value of --if-busy."""
    known: dict[str, IfBusy] = {"reject": "reject", "enqueue": "enqueue", "interrupt": "interrupt"}
    if value not in known:
        bad_use(f"--if-busy is {', '.join(known)}, and not {value!r}")
    return known[value]
