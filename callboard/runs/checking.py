"""What `run` is given, checked before anything begins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, get_args

from callboard.agents.chat_agent import ChatAgent
from callboard.agents.team import Team
from callboard.conditions.base import TerminationCondition
from callboard.groupchat.manager import GroupChatManager
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams.budget import check_budget
from callboard.teams.orders import IfBusy

from .chat_managers import ChatManagerProtocol
from .errors import RunDeclarationError
from .options import RunOptions
from .response import AsyncRunResponse
from .sync_response import RunResponse

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
        RunDeclarationError: There is no such argument, or its value is of a wrong kind (a ValueError).
        SettingValueError: The budget is none (a ValueError).
    """
    for agent in agents:
        if not isinstance(agent, ChatAgent | Team):
            raise RunDeclarationError(
                f"{agent!r} is no agent: run() takes ConversableAgents, chat agents, or a team."
            )
    known = RunOptions.__annotations__
    unknown = options.keys() - known.keys()
    if unknown:
        raise RunDeclarationError(f"run() has no argument {min(unknown)!r}; it takes {sorted(known)}.")
    given: dict[str, Any] = dict(options)
    for name, (fits, rule) in RULES.items():
        value = given.get(name)
        if value is not None and not fits(value):
            raise RunDeclarationError(f"run() can't take {name}={value!r:.80}: it has to be {rule}.")
    check_budget(options.get("budget"))
