"""The global `run`: from the agents and the task that are given to a run under way, in this process or on the bus."""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypedDict, TypeVar, Unpack, get_args
from weakref import WeakSet

from callboard.agents.base import ChatAgent, Task, Team, task_messages
from callboard.broker import AgentId
from callboard.conditions.base import TerminationCondition
from callboard.core.protocol import AgentRuntime
from callboard.errors import DeclarationError, MisuseError, SettingValueError
from callboard.groupchat.conversable import MUTE, ConversableAgent
from callboard.groupchat.manager import GroupChatManager
from callboard.messages.chat import BaseChatMessage
from callboard.runtime.runs import check_run
from callboard.runtime.runtime import RedisAgentRuntime, on_bus
from callboard.teams.budget import RunBudget, check_budget
from callboard.teams.client import TeamClient
from callboard.teams.errors import RunUnknownError as RunUnknownError  # noqa: PLC0414 - passed on
from callboard.teams.group_chat import BaseGroupChat, host
from callboard.teams.listing import RunAddress, addresses_of, has_run
from callboard.teams.loop import Participant
from callboard.teams.notices import Hearer
from callboard.teams.protocol import IfBusy

from . import projection as variables
from .bus import BusRun
from .chat_managers import ChatManagerProtocol
from .local import ProcessRun, Steps, continued, run_here, stepped
from .response import AsyncRunResponse, LoopThread, RunResponse, loop_thread
from .team import ToolLike, run_team

ON_BUS: Final = ("conversation", "if_busy", "on_end", "record")
SHORTEST_PAUSE: Final = 0.05  # seconds between two looks for a run that is to begin
LONGEST_PAUSE: Final = 0.8  # seconds
LOOKS_PART: Final = 50  # a pause is at least so many times as long as the look before it
BEGINS_LATER: Final = (
    "there is none, or not any more. For one that begins in a moment: "
    "`await a_attach(runtime, run_id, wait=10)`."
)


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
        DeclarationError: These can't make a run (a ValueError).
        RunUnknownError: There is no such previous run (a LookupError).
        MisuseError: An agent of such a run calls it, or the runtime belongs to a program that is async (a RuntimeError).
    """
    thread = loop_thread()
    check(agents, options)
    runtime = options.get("runtime")
    if runtime is not None:
        take_in(on_bus(runtime), thread, "run")
    response = thread.call(_begin(agents, options, is_async=False), "run()")
    return RunResponse(response, thread, is_here=isinstance(response.source, ProcessRun))


async def a_run(*agents: Participant, **options: Unpack[RunOptions]) -> AsyncRunResponse:
    """The same for async programs; see `run`. It lives in the event loop of the caller."""
    check(agents, options)
    return await _begin(agents, options, is_async=True)


def attach(
    runtime: AgentRuntime,
    run_id: str,
    *,
    team: str | None = None,
    conversation: str | None = None,
    wait: float = 0,
) -> RunResponse:
    """A run on the bus that was begun before, in whatever process, under way or over. Where code is async, use `a_attach`.

    Args:
        runtime: Reaches it; it is opened in the thread of the runs.
        run_id: Its id, whole.
        team: Agent type of its team; None: it is looked up, as is the conversation.
        conversation: Id of its conversation.
        wait: Seconds to wait for it to begin, such as after the message was published that starts it; 0: not at all. With
            team and conversation a look costs two commands, else one through the list of all runs.

    Raises:
        RunUnknownError: There is none, or not any more, or several conversations have one (a LookupError). Other runs are
            not named. With team, conversation and no `wait`, it is raised by what is asked of the response.
        SettingValueError: The id is empty or too long, or `wait` is no number of seconds (a ValueError).
        MisuseError: An agent of such a run calls it, or the runtime belongs to a program that is async (a RuntimeError).
    """
    thread = loop_thread()
    bus = on_bus(runtime)
    take_in(bus, thread, "attach")
    found = thread.call(attached(bus, run_id, team, conversation, wait=wait, is_async=False), "attach()")
    return RunResponse(AsyncRunResponse(found), thread, is_here=False)


async def a_attach(
    runtime: AgentRuntime,
    run_id: str,
    *,
    team: str | None = None,
    conversation: str | None = None,
    wait: float = 0,
) -> AsyncRunResponse:
    """The same for async programs; see `attach`. The runtime is one of theirs."""
    return AsyncRunResponse(
        await attached(on_bus(runtime), run_id, team, conversation, wait=wait, is_async=True)
    )


async def _begin(agents: tuple[Participant, ...], options: RunOptions, *, is_async: bool) -> AsyncRunResponse:
    runtime = options.get("runtime")
    if runtime is not None:
        return AsyncRunResponse(await begin_on_bus(on_bus(runtime), agents, options, is_async=is_async))
    for key in ON_BUS:
        if options.get(key) not in (None, False):
            raise DeclarationError(f"{key!r} is for runs on the bus: give run() a runtime as well.")
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
        raise DeclarationError(
            f"The run {found.run_id!r} of this process lives in another event loop, as one of run() does where this is "
            "a_run(): go on with the response of that one."
        )
    return found


Previous = RunResponse | AsyncRunResponse | str


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
        raise DeclarationError(
            "The previous run was on the bus: give run() the runtime, so that it goes on there."
        )
    return _of_this_loop(source)


class RunOptions(TypedDict, total=False):
    """The keyword arguments of `run` and `a_run`.

    Keys:
        message: What to do: a text, which comes from "user", or chat messages; None: go on.
        previous_run: An earlier run, or its id: its messages and context variables are known to the agents of this one.
        chat_manager: Decides who speaks next; None: round robin, or whom the agents hand over to.
        max_turns: How many turns it has at most.
        termination: What else ends it.
        tools: Tools and functions that its ConversableAgents may call besides their own.
        is_termination_message: Whether a text that is said is the last one.
        budget: The most that it may use; see `RunBudget`.
        context_variables: What the agents know besides.
        step: Whether the next turn begins only when a reader has seen everything before it, and waits for more.
        runtime: The bus, where the run survives the death of processes; None: it lives in this process.
        name: Of the team on the bus; None: made of the names of the agents.
        conversation: Of the run on the bus: what was said in it before is known; None: that of the previous run, else a
            new one, which has the `run_id` as its id where that is given.
        run_id: An id of your own: with the same one, again, the task is not carried out again, and its run is read; in one
            process until that one has ended and the program does not hold it any more.
        if_busy: What to do when the conversation has a run under way: "reject", "enqueue" or "interrupt".
        on_end: On the bus: an agent or a topic that gets a `RunNotice` when the run has ended, and when it asks; see
            `TeamClient.start`.
        record: Whether what models and tools answer is kept, on the bus, so that `response.export` makes a cassette of it.
    """

    message: Task
    previous_run: Previous | None
    chat_manager: ChatManagerProtocol | GroupChatManager | None
    max_turns: int | None
    termination: TerminationCondition | None
    tools: Sequence[ToolLike] | None
    is_termination_message: Callable[[str], Any] | None
    budget: RunBudget | None
    context_variables: Mapping[str, Any] | None
    step: bool
    runtime: AgentRuntime | None
    name: str | None
    conversation: str | None
    run_id: str | None
    if_busy: IfBusy
    on_end: Hearer | None
    record: bool


Rule = tuple[Callable[[Any], bool], str]


def _is_a(*kinds: type[Any]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


TEXT: Final[Rule] = (lambda value: isinstance(value, str) and value != "", "a text that is not empty")
RULES: Final[Mapping[str, Rule]] = {
    "previous_run": (_is_a(str, RunResponse, AsyncRunResponse), "a response of run() or the id of a run"),
    "chat_manager": (
        _is_a(ChatManagerProtocol, GroupChatManager),
        "something with the methods register_agent and get_next_agent",
    ),
    "termination": (
        _is_a(TerminationCondition),
        "a termination condition, such as MaxMessageTermination(10)",
    ),
    "tools": (_is_list, "a list of tools and functions"),
    "is_termination_message": (callable, "a function of the text"),
    "runtime": (
        _is_a(RedisAgentRuntime),
        "a RedisAgentRuntime, such as `async with app.running() as runtime`",
    ),
    "name": TEXT,
    "conversation": TEXT,
    "run_id": TEXT,
    "if_busy": (lambda value: value in get_args(IfBusy), f"one of {', '.join(get_args(IfBusy))}"),
}


def check(agents: Sequence[object], options: RunOptions) -> None:
    """Refuse what can make no run.

    The number of turns is checked by the team, the task and the context variables where they are used.

    Raises:
        DeclarationError: There is no such argument, or its value is of a wrong kind (a ValueError).
        SettingValueError: The budget is none (a ValueError).
    """
    for agent in agents:
        if not isinstance(agent, ChatAgent | Team):
            raise DeclarationError(
                f"{agent!r} is no agent: run() takes ConversableAgents, chat agents, or a team."
            )
    if agents and all(isinstance(agent, ConversableAgent) and agent.is_mute for agent in agents):
        names = " and ".join(repr(agent.name) for agent in agents if isinstance(agent, ConversableAgent))
        raise DeclarationError(MUTE.format(names=names))
    known = RunOptions.__annotations__
    unknown = options.keys() - known.keys()
    if unknown:
        raise DeclarationError(f"run() has no argument {min(unknown)!r}; it takes {sorted(known)}.")
    given: dict[str, Any] = dict(options)
    for name, (fits, rule) in RULES.items():
        value = given.get(name)
        if value is not None and not fits(value):
            raise DeclarationError(f"run() can't take {name}={value!r:.80}: it has to be {rule}.")
    check_budget(options.get("budget"))


ELSEWHERE: Final = (
    "{name}() can't wait here: the runtime is open in another event loop; use `await a_{name}(...)` there, "
    "or give {name}() one that is not open yet"
)

_taken: WeakSet[RedisAgentRuntime] = WeakSet()


def take_in(runtime: RedisAgentRuntime, thread: LoopThread, name: str) -> None:
    """Open and start a runtime in the thread, which closes it at its end.

    Args:
        runtime: The runtime.
        thread: The thread of the runs.
        name: The function that needs it, for an error.

    Raises:
        MisuseError: It is open somewhere else (a RuntimeError).
    """
    if runtime in _taken:
        return
    if _is_open(runtime):
        raise MisuseError(ELSEWHERE.format(name=name))
    thread.call(_start(runtime), f"{name}()")
    thread.at_end(runtime.close)
    _taken.add(runtime)


def _is_open(runtime: RedisAgentRuntime) -> bool:
    try:
        return bool(runtime.transport)
    except MisuseError:
        return False


async def _start(runtime: RedisAgentRuntime) -> None:
    await runtime.open()
    runtime.start()


OF_TEAM: Final = ("chat_manager", "max_turns", "termination", "tools", "is_termination_message", "name")


def team_of(agents: Sequence[Participant], options: RunOptions) -> BaseGroupChat:
    """The team that carries it out; see `run_team`."""
    given: dict[str, Any] = dict(options)
    return run_team(*agents, **{key: given[key] for key in OF_TEAM if key in given})


def task_with(message: Task, *known: Mapping[str, Any] | None) -> list[BaseChatMessage] | None:
    """The task with what is known besides; of two values of a variable the later one.

    Raises:
        DeclarationError: Something is known, and there is no task (a ValueError).
        DeclarationError: One of them is no plain data (a ValueError).
        AgentSettingError: The task is none (a ValueError).
    """
    messages, values = task_messages(message), {}
    for some in known:
        values.update(variables.as_json({} if some is None else some))
    if not values:
        return messages or None
    if not messages:
        raise DeclarationError("Context variables go with a message: give run() a message as well.")
    first = messages[0].model_copy(deep=True)
    first.metadata.update(variables.written(values))
    return [first, *messages[1:]]


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
    await runtime.runs.check_reading(client.team)
    run_id, task = options.get("run_id"), task_with(options.get("message"), options.get("context_variables"))
    if_busy = options.get("if_busy", "reject")
    budget = options.get("budget")
    run_id = await client.start(
        task=task,
        if_busy=if_busy,
        run_id=run_id,
        budget=budget,
        record=bool(options.get("record")),
        step=step,
        on_end=options.get("on_end"),
    )
    return BusRun(client, run_id, is_async=is_async, steps=step)


async def attached(
    runtime: RedisAgentRuntime,
    run_id: str,
    team: str | None = None,
    conversation: str | None = None,
    *,
    wait: float = 0,
    is_async: bool = True,
) -> BusRun:
    """A run that was begun before; see `attach`."""
    check_run(run_id)
    _check_wait(wait)
    if team is not None and conversation is not None:
        address = AgentId(team, conversation)
        if wait and not await _within(wait, lambda: has_run(runtime, address, run_id)):
            raise RunUnknownError(run_id, f"{address} has none, and none began within {wait:g} s.")
        return BusRun(TeamClient(runtime, team, conversation), run_id, is_async=is_async)
    found = await _within(wait, lambda: addresses_of(runtime, run_id, team=team))
    at = _only_one(run_id, found or [], wait)
    return BusRun(TeamClient(runtime, at.team, at.conversation), at.run_id, is_async=is_async)


def _check_wait(wait: object) -> None:
    # With NaN no time would ever be over.
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait < math.inf:
        raise SettingValueError("wait", repr(wait), "seconds, 0 or more, such as 10")


Found = TypeVar("Found")


async def _within(wait: float, look: Callable[[], Awaitable[Found]]) -> Found:
    """The first find that is not empty, else the last one after so many seconds."""
    until, pause = time.monotonic() + wait, SHORTEST_PAUSE
    while True:
        began = time.monotonic()
        found = await look()
        now = time.monotonic()
        if found or now >= until:
            return found
        # A look through many runs takes the server long: it is busy with one who waits for 2 % of the time at most.
        await asyncio.sleep(min(max(pause, (now - began) * LOOKS_PART), until - now))
        pause = min(2 * pause, LONGEST_PAUSE)


def _only_one(run_id: str, found: list[RunAddress], wait: float) -> RunAddress:
    if not found:
        raise RunUnknownError(run_id, BEGINS_LATER if not wait else f"none began within {wait:g} s.")
    if len(found) > 1:
        raise RunUnknownError(
            run_id, f"{len(found)} conversations have a run with this id: name its team and conversation."
        )
    if not found[0].team:
        raise RunUnknownError(run_id, "its beginning is not kept any more: name its team and conversation.")
    return found[0]


async def _run_before(runtime: RedisAgentRuntime, given: Previous | None) -> BusRun | None:
    if given is None:
        return None
    if isinstance(given, str):
        return await attached(runtime, given)
    source = given.source if isinstance(given, AsyncRunResponse) else given.response.source
    if not isinstance(source, BusRun):
        raise DeclarationError(
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
        raise DeclarationError(
            f"The previous run was one of the team {previous.team.team!r}, and this one is of {team.name!r}: "
            "on the bus a run goes on with the same team; `name=` names it."
        )
    if given not in (None, previous.team.conversation):
        raise DeclarationError(
            f"The previous run was in the conversation {previous.team.conversation!r}, and {given!r} is another one."
        )
    return previous.team.conversation
