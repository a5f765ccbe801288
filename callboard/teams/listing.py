"""The runs of the teams of a namespace: which there are, and how each stands."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import pydantic_core

from callboard.broker import AgentId
from callboard.broker.redis.keys import run as run_suffix
from callboard.errors import SettingValueError
from callboard.messages.chat import BaseChatMessage
from callboard.runtime.runs import check_run
from callboard.runtime.runtime import on_bus

from .errors import RunUnknownError
from .loop import is_of_takes
from .member import waiting_conversations
from .protocol import ANSWERS, CurrentRun, RunEnded, RunState, Shown, StartRun, stream_of

if TYPE_CHECKING:
    from callboard.core.protocol import AgentRuntime
    from callboard.runtime.run_history import ListedRun
    from callboard.runtime.runtime import RedisAgentRuntime

ListedState: TypeAlias = RunState | Literal["unknown"]
"""How a run stands; "unknown": nothing says it, as with a stream that no team writes."""

PAGE: Final = 100  # runs that are looked at together
NAMED: Final = 5  # runs that an error names
LONGEST_TASK: Final = 200  # characters that a list shows


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run, as a list shows it.

    Attributes:
        run_id: Id of the run.
        team: Agent type of its team; "": its beginning is not kept any more, or was written by an older version.
        conversation: Id of the conversation; "": as above.
        state: How it stands.
        began: When it began.
        ended: When it ended; None: it has not, as far as is known.
        entries: How many its stream has.
        stop_reason: Why it was completed; None: it was not.
        problem: Why it failed; "": it has not.
        stream: What `runtime.read_run` reads.
        task: How its task begins; "": its beginning is not kept any more.
    """

    run_id: str
    team: str
    conversation: str
    state: ListedState
    began: datetime
    ended: datetime | None
    entries: int
    stop_reason: str | None
    problem: str
    stream: str
    task: str = ""


class RunAddress(NamedTuple):
    """Where a run is.

    Attributes:
        team: Agent type of its team; "": its beginning is not kept any more, or was written by an older version.
        conversation: Id of the conversation; "": as above.
        run_id: Id of the run.
    """

    team: str
    conversation: str
    run_id: str


async def list_runs(
    runtime: AgentRuntime,
    *,
    state: str | None = None,
    team: str | None = None,
    conversation: str | None = None,
    since: datetime | None = None,
    limit: int = 100,
    before: str | None = None,
) -> list[RunSummary]:
    """The runs whose events are kept, the newest first.

    ```python
    for run in await list_runs(runtime, state="failed", limit=10):
        print(run.run_id, run.team, run.conversation, run.problem)
    ```

    Args:
        runtime: Reaches the server.
        state: Only runs that stand like this: "working", "paused", "completed", "failed", "cancelled", ...; None: all.
        team: Only runs of this team; None: of all.
        conversation: Only runs of this conversation; None: of all.
        since: Only runs that began then or later, by the server's clock, with a time zone; None: all.
        limit: Most runs to return.
        before: The `stream` of a run: only those that began before it. The last one of a page gives the next page.

    Raises:
        SettingValueError: `before` is no run that is listed, or `since` has no time zone (a ValueError).
        ServerUnavailableError: No server answers.
    """
    if since is not None and since.tzinfo is None:
        raise SettingValueError("since", str(since), "a time with a zone, such as datetime.now(UTC)")
    bus = on_bus(runtime)
    bus.registry.register(*ANSWERS)
    found: list[RunSummary] = []
    waiting = await waiting_conversations(bus)
    last: str | ListedRun | None = before
    while len(found) < limit:
        # Without a filter nearly all that is read is shown.
        most = PAGE if state or team or conversation is not None else min(PAGE, limit - len(found))
        page = await bus.list_runs(limit=most, before=last)
        for listed in page:
            if since is not None and listed.began < since:
                return found  # all others began before it
            if _is_run(listed, team) and conversation in (None, _names(listed)[1]):
                run = await _summary(bus, listed, waiting)
                if state is None or run.state == state:
                    found.append(run)
            if len(found) == limit:
                break
        if len(page) < most:
            break
        last = page[-1]
    return found


async def find_run(runtime: AgentRuntime, name: str, *, team: str | None = None) -> RunSummary:
    """The run with this id, or the only one whose id begins with it.

    Args:
        runtime: Reaches the server.
        name: Id of the run or of its stream, or the beginning of one.
        team: Only runs of this team; None: of all.

    Raises:
        RunUnknownError: There is none, or more than one (a LookupError); the text names what is near.
    """
    bus = on_bus(runtime)
    near = await _begin_with(bus, name, team)
    found = _exactly(name, near) or near
    if len(found) == 1:
        return await _summary(bus, found[0], await waiting_conversations(bus))
    raise RunUnknownError(name, _several(found) if found else await _none(bus, name, team))


async def addresses_of(
    runtime: RedisAgentRuntime, run_id: str, *, team: str | None = None
) -> list[RunAddress]:
    """Where the runs with exactly this id are: one in each conversation that has one; none: it has not begun.

    Args:
        runtime: Reaches the server.
        run_id: Id of the run or of its stream.
        team: Only runs of this team; None: of all.
    """
    return [
        RunAddress(*_names(listed)) for listed in _exactly(run_id, await _begin_with(runtime, run_id, team))
    ]


async def has_run(runtime: RedisAgentRuntime, team: AgentId, run_id: str) -> bool:
    """Whether a conversation has this run, queued, under way or over, as long as its events are kept.

    Args:
        runtime: Reaches the server.
        team: Address of the manager.
        run_id: Id of the run.
    """
    if await stored_state(runtime, team, run_id) != "idle":
        return True
    transport = runtime.transport
    return bool(
        await transport.admin.command("EXISTS", transport.keys.of(run_suffix(stream_of(team, run_id))))
    )


async def has_conversation(runtime: RedisAgentRuntime, team: AgentId) -> bool:
    """Whether a run began in a conversation, which so knows what was said in it.

    Args:
        runtime: Reaches the server.
        team: Address of the manager.
    """
    await runtime.open()
    return bool(await _stored(runtime, team))


async def _begin_with(runtime: RedisAgentRuntime, name: str, team: str | None) -> list[ListedRun]:
    """The runs whose ids begin like this; the id of a run's stream begins with that of the run."""
    check_run(name)
    runtime.registry.register(*ANSWERS)
    found: list[ListedRun] = []
    last: ListedRun | None = None
    while True:
        page = await runtime.list_runs(limit=PAGE, before=last, begins_with=name)
        found += [listed for listed in page if _is_run(listed, team)]
        if len(page) < PAGE:
            return found
        last = page[-1]


def _exactly(name: str, near: list[ListedRun]) -> list[ListedRun]:
    return [one for one in near if name == one.id] or [one for one in near if name == _names(one)[2]]


def _several(near: list[ListedRun]) -> str:
    more = f" and {len(near) - NAMED} more" if len(near) > NAMED else ""
    named = ", ".join(listed.id for listed in near[:NAMED])
    return f"{len(near)} begin like this, so write more of one: {named}{more}."


async def _none(runtime: RedisAgentRuntime, name: str, team: str | None) -> str:
    """The advice for a name that no run has; one that is near is looked for among the newest runs."""
    newest_runs = await runtime.list_runs(limit=PAGE)
    known = [_names(listed)[2] for listed in newest_runs if _is_run(listed, team)]
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"there is none. Did you mean {close[0]!r}?"
    newest = f"The newest are: {', '.join(known[:NAMED])}." if known else "No other is kept."
    return f"there is none. {newest}"


def _is_run(listed: ListedRun, team: str | None) -> bool:
    """Whether a stream is that of a run, and of this team where one is given; what was recorded of a run lies beside it."""
    return not is_of_takes(listed.id) and (team is None or _names(listed)[0] == team)


def _names(listed: ListedRun) -> tuple[str, str, str]:
    """Team, conversation and id."""
    began = listed.first.began if isinstance(listed.first, Shown) else None
    if began is not None:
        return began.team, began.conversation, began.run_id
    run_id, at, _ = listed.id.rpartition("@")
    return "", "", run_id if at else listed.id


async def _summary(
    runtime: RedisAgentRuntime, listed: ListedRun, waiting: Collection[tuple[str, str]]
) -> RunSummary:
    team, conversation, run_id = _names(listed)
    end = listed.last if isinstance(listed.last, RunEnded) else None
    state: ListedState = "unknown"
    if end is not None:
        state = end.state
    elif team:
        state = await _state_of(runtime, AgentId(team, conversation), run_id)
        if state == "working" and (team, conversation) in waiting:
            state = "input_required"
    elif isinstance(listed.last, Shown):
        state = "working"
    return RunSummary(
        run_id=run_id,
        team=team,
        conversation=conversation,
        state=state,
        began=listed.began,
        ended=None if end is None else listed.changed,
        entries=listed.entries,
        stop_reason=None if end is None else end.stop_reason,
        problem="" if end is None or end.error is None else f"{end.error.error_type}: {end.error.text}",
        stream=listed.id,
        task=_task(listed),
    )


def _task(listed: ListedRun) -> str:
    said = listed.first.messages if isinstance(listed.first, Shown) else []
    return next((one.to_text()[:LONGEST_TASK] for one in said if isinstance(one, BaseChatMessage)), "")


async def _state_of(runtime: RedisAgentRuntime, team: AgentId, run_id: str) -> ListedState:
    """How a run stands that had not ended when it was listed, by what its manager stored; no process has to run it."""
    stored = await _stored(runtime, team)
    return _current(stored, run_id) or ("working" if stored else "unknown")


async def stored_state(runtime: RedisAgentRuntime, team: AgentId, run_id: str) -> RunState:
    """How a run stands, by what its manager stored: no process has to run it. "idle": it has ended, or never was.

    Args:
        runtime: Reaches the server.
        team: Address of the manager.
        run_id: Id of the run.
    """
    await runtime.open()
    stored = await _stored(runtime, team)
    is_queued = any(order["run_id"] == run_id for order in stored.get("queued", ()))
    return _current(stored, run_id) or ("queued" if is_queued else "idle")


async def queued_task(runtime: RedisAgentRuntime, team: AgentId, run_id: str) -> list[BaseChatMessage]:
    """The task of a run that waits for its turn, and of which nothing is shown yet; empty: it does not wait.

    Args:
        runtime: Reaches the server.
        team: Address of the manager.
        run_id: Id of the run.
    """
    await runtime.open()
    orders = (await _stored(runtime, team)).get("queued", ())
    waiting = [StartRun.model_validate(order) for order in orders if order["run_id"] == run_id]
    return [one for order in waiting for one in order.task if isinstance(one, BaseChatMessage)]


async def _stored(runtime: RedisAgentRuntime, team: AgentId) -> dict[str, Any]:
    transport = runtime.transport
    data = await transport.admin.command("HGET", transport.keys.of(f"state:{team.type}:{team.key}"), "d")
    return pydantic_core.from_json(data) if data else {}


def _current(stored: dict[str, Any], run_id: str) -> RunState | None:
    run = stored.get("run")
    return CurrentRun.model_validate(run).state if run is not None and run["run_id"] == run_id else None
