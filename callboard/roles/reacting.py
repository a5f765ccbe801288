"""How a role with several actions answers: a model chooses, one after the other, or by a plan."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Protocol

from .action import Action
from .llm import Answering
from .message import AIMessage, Message
from .plan import Planner, Task, TaskResult
from .role_context import RoleContext

NUMBER: Final = re.compile(r"-?\d+")
LAST_SHOWN: Final = 20  # messages that a model is shown when it chooses
CHOOSE: Final = """{prefix}
What was said so far:
{history}

You can do one of these next:
{states}

You did number {previous} last (-1: nothing yet). Which is next?
Answer with its number alone, or with -1 when nothing is left to do."""


class Reacting(Protocol):
    """A role, as far as its ways to react need it; see Role."""

    actions: list[Action]
    planner: Planner
    rc: RoleContext

    @property
    def states(self) -> Sequence[str]: ...

    @property
    def address(self) -> str: ...

    @property
    def llm(self) -> Answering: ...

    def prefix(self) -> str: ...

    def cause(self) -> str: ...

    async def _think(self) -> bool: ...

    async def _act(self) -> Message | None: ...

    async def _act_on_task(self, current_task: Task) -> TaskResult: ...


async def act_in_loop(role: Reacting) -> Message | None:
    """Think and act until nothing is left to do, or the limit is reached; the last message counts."""
    is_by_order = role.rc.react_mode == "by_order"
    most = len(role.actions) if is_by_order else role.rc.max_react_loop
    said: Message | None = None
    for _ in range(most):
        if not await role._think():
            break
        said = await role._act()
        if said is not None and not said.has_cause and role.rc.todo is not None:
            said = said.model_copy(update={"cause_by": role.cause()})
    return said


async def choose_by_model(role: Reacting) -> int:
    """The number of the next action, as a model says; -1 when it says none that there is."""
    shown = "\n".join(str(message) for message in role.rc.memory.get(LAST_SHOWN))
    prompt = CHOOSE.format(
        prefix=role.prefix(), history=shown, states="\n".join(role.states), previous=role.rc.state
    )
    found = NUMBER.search(await role.llm.aask(prompt))
    number = int(found[0]) if found else -1
    return number if 0 <= number < len(role.actions) else -1


async def act_by_plan(role: Reacting) -> Message:
    """Make a plan for the newest message, carry its tasks out in their order, and say what came of them."""
    planner = role.planner
    await planner.update_plan(role.llm, role.rc.memory.get()[-1].content)
    while (task := planner.current_task) is not None:
        planner.finish(task, await role._act_on_task(task))
    cause = role.actions[0] if role.actions else ""
    said = AIMessage(content=planner.summary(), sent_from=role.address, cause_by=cause)
    role.rc.memory.add(said)
    return said
