"""What `run` and `a_run` can be told besides the agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from callboard.agents.task import Task
from callboard.conditions.base import TerminationCondition
from callboard.groupchat.manager import GroupChatManager
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams.budget import RunBudget
from callboard.teams.orders import IfBusy

from .chat_managers import ChatManagerProtocol
from .response import AsyncRunResponse
from .sync_response import RunResponse
from .team import ToolLike

Previous = RunResponse | AsyncRunResponse | str


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
            process as long as somebody holds that one.
        if_busy: What to do when the conversation has a run under way: "reject", "enqueue" or "interrupt".
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
    runtime: RedisAgentRuntime | None
    name: str | None
    conversation: str | None
    run_id: str | None
    if_busy: IfBusy
