"""The role: what it watches, which actions it has, and how it chooses among them, one after the other or by a plan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from callboard.models import extract_json_from_str

from .action import Action, ActionOutput, Answering, Context, Person, UserRequirement
from .errors import EnvironmentStateError, MessageDataError, RoleDeclarationError
from .message import AIMessage, Memory, Message, any_to_str, any_to_str_set, bus_name
from .routing import Post


class RoleReactMode(StrEnum):
    """How a role with several actions chooses."""

    REACT = "react"
    BY_ORDER = "by_order"
    PLAN_AND_ACT = "plan_and_act"

    @classmethod
    def values(cls) -> list[str]:
        """All of them."""
        return [mode.value for mode in cls]


class RoleContext:
    """State and surroundings of a role.

    Attributes:
        memory: What it got and made; in an environment it is part of every commit.
        news: What it answers to now: one message, or those that it hears together.
        todo: The action that is next; None: none.
        state: Number of that action, from 0; -1: none.
        watch: The actions that it hears, as ``module.Class``.
        joined: Those of them whose subtasks it hears together.
        react_mode: How it chooses.
        max_react_loop: Most actions for one message, in the mode "react".
        round: Which time this is that it acts on this work, from 1.
        max_rounds: How often it may; None: without end.
    """

    def __init__(self, role_name: str = "") -> None:
        self.memory = Memory()
        self.news: list[Message] = []
        self.todo: Action | None = None
        self.state = -1
        self.watch: set[str] = set()
        self.joined: set[str] = set()
        self.react_mode = RoleReactMode.REACT
        self.max_react_loop = 1
        self.round = 1
        self.max_rounds: int | None = None
        self._role_name = role_name
        self._env: Any = None

    @property
    def env(self) -> Any:
        """The environment, an `Environment`.

        Raises:
            EnvironmentStateError: It is in none (a RuntimeError).
        """
        if self._env is None:
            raise EnvironmentStateError(
                f"{self._role_name} is in no environment: env.add_roles([{self._role_name}()])"
            )
        return self._env

    @env.setter
    def env(self, env: Any) -> None:
        self._env = env

    @property
    def has_env(self) -> bool:
        """Whether it is in one."""
        return self._env is not None

    @property
    def is_last_round(self) -> bool:
        """Whether it will not act on this work again."""
        return self.max_rounds is not None and self.round >= self.max_rounds

    @property
    def history(self) -> list[Message]:
        """All that it remembers, oldest first."""
        return self.memory.get()

    @property
    def important_memory(self) -> list[Message]:
        """Remembered messages of the actions that it watches."""
        return self.memory.get_by_actions(self.watch)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """One for another agent of the same role: the same rules, and nothing remembered."""
        twin = type(self)(self._role_name)
        for name in ("watch", "joined", "react_mode", "max_react_loop", "_env"):
            value = getattr(self, name)
            setattr(twin, name, set(value) if isinstance(value, set) else value)
        memo[id(self)] = twin
        return twin


ASK: Final = """Make a plan for this:
{goal}

Answer with a JSON list of tasks, in the order in which they are to be done, and nothing else. Each of them is
{{"task_id": "1", "dependent_task_ids": [], "instruction": "..."}}"""


class Task(BaseModel):
    """One task of a plan.

    Attributes:
        task_id: Its number.
        dependent_task_ids: Tasks that have to be done before.
        instruction: What is to be done.
        result: What came of it.
        is_finished: Whether it is done.
    """

    task_id: str
    dependent_task_ids: list[str] = Field(default_factory=list)
    instruction: str = ""
    result: str = ""
    is_finished: bool = False


class TaskResult(BaseModel):
    """The outcome of a task.

    Attributes:
        result: As text.
        is_success: Whether it is done; else the plan ends there.
    """

    result: str = ""
    is_success: bool = True


class Plan(BaseModel):
    """Tasks for a goal."""

    goal: str = ""
    tasks: list[Task] = Field(default_factory=list)


class Planner(BaseModel):
    """A plan in the making, and its count of tasks."""

    plan: Plan = Field(default_factory=Plan)
    has_failed: bool = False

    async def update_plan(self, llm: Answering, goal: str) -> None:
        """Ask a model for the tasks.

        Raises:
            MessageDataError: Its answer is no list of tasks (a ValueError).
        """
        answer = await llm.aask(ASK.format(goal=goal))
        self.plan, self.has_failed = Plan(goal=goal, tasks=_tasks_in(answer)), False

    @property
    def current_task(self) -> Task | None:
        """The first task that is not done and waits for no other; None: there is none, or one has failed."""
        if self.has_failed:
            return None
        done = {task.task_id for task in self.plan.tasks if task.is_finished}
        ready = (
            task
            for task in self.plan.tasks
            if not task.is_finished and done.issuperset(task.dependent_task_ids)
        )
        return next(ready, None)

    def finish(self, task: Task, result: TaskResult) -> None:
        """A task is done, or has failed."""
        task.result, task.is_finished = result.result, result.is_success
        self.has_failed = not result.is_success

    def summary(self) -> str:
        """The outcome of the tasks, as text."""
        return "\n".join(f"{task.task_id}. {task.instruction}: {task.result}" for task in self.plan.tasks)


def _tasks_in(answer: str) -> list[Task]:
    try:
        found = extract_json_from_str(answer)
        data = found[0] if len(found) == 1 and isinstance(found[0], list) else found
        return [Task.model_validate(one) for one in data]
    except (ValueError, ValidationError) as error:
        raise MessageDataError("the model's answer is no list of tasks") from error


NUMBER: Final = re.compile(r"-?\d+")
LAST_SHOWN: Final = 20  # messages that a model is shown when it chooses
CHOOSE: Final = """{prefix}
What was said so far:
{history}

You can do one of these next:
{states}

You did number {previous} last (-1: nothing yet). Which is next?
Answer with its number alone, or with -1 when nothing is left to do."""


def _listed(role: Role, method: str, actions: Any) -> list[Any]:
    """Actions as a list, where one alone was given as well as where there are several.

    Raises:
        RoleDeclarationError: It is one (a TypeError).
    """
    if isinstance(actions, type | str | Action) or not isinstance(actions, Iterable):
        name = getattr(actions, "__name__", repr(actions))
        raise RoleDeclarationError(
            type(role).__name__, f"{method}() takes a list: write self.{method}([{name}])"
        )
    return list(actions)


async def act_in_loop(role: Role) -> Message | None:
    """Think and act until nothing is left to do, or the limit is reached; the last message counts.

    Raises:
        RoleDeclarationError: It has no action, and no way of its own to think (a ValueError). MetaGPT says nothing.
    """
    if not role.actions and type(role)._think is Role._think:
        raise RoleDeclarationError(
            type(role).__name__,
            "a message has reached it, and it has no action: write self.set_actions([...]) in its __init__, or an `_act` "
            "with a `_think` of its own. To hear nothing, it watches nothing: self._watch([])",
        )
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


async def choose_by_model(role: Role) -> int:
    """The number of the next action, as a model says; -1 when it says none that there is."""
    shown = "\n".join(str(message) for message in role.rc.memory.get(LAST_SHOWN))
    prompt = CHOOSE.format(
        prefix=role.prefix(), history=shown, states="\n".join(role.states), previous=role.rc.state
    )
    found = NUMBER.search(await role.llm.aask(prompt))
    number = int(found[0]) if found else -1
    return number if 0 <= number < len(role.actions) else -1


async def act_by_plan(role: Role) -> Message:
    """Make a plan for the newest message, carry its tasks out in their order, and say what came of them."""
    planner = role.planner
    await planner.update_plan(role.llm, role.rc.memory.get()[-1].content)
    while (task := planner.current_task) is not None:
        planner.finish(task, await role._act_on_task(task))
    cause = role.actions[0] if role.actions else ""
    said = AIMessage(content=planner.summary(), sent_from=role.address, cause_by=cause)
    role.rc.memory.add(said)
    return said


Actions = Iterable[Action | type[Action]]


class Role(BaseModel):
    """An agent that acts when an action that it watches was done.

    ```python
    class Coder(Role):
        name: str = "Ada"

        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.set_actions([WriteCode])
            self._watch({WriteDesign})
    ```

    In an environment it is an agent type, named as the role, or as its class when it has no name. For each subtask it has
    one agent, with a copy of this object. What the copy remembers in `rc.memory`, and the fields that a subclass declares,
    as far as they fit into JSON, are stored with every commit and are there again after a restart; all else belongs to one
    process.

    Attributes:
        name: What others call it in `send_to`; "": its class.
        profile: What it is, such as "engineer".
        goal: What it wants to reach.
        constraints: What it has to keep to.
        desc: Anything else that models are told about it.
        is_human: A person answers in the place of the model: `runtime.inputs` has the questions.
        actions: What it can do.
        rc: What it has at hand while it acts.
        planner: The plan of the mode "plan_and_act".
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="allow")

    name: str = ""
    profile: str = ""
    goal: str = ""
    constraints: str = ""
    desc: str = ""
    is_human: bool = False
    actions: list[Action] = Field(default_factory=list, exclude=True)
    rc: RoleContext = Field(default_factory=RoleContext, exclude=True)
    planner: Planner = Field(default_factory=Planner, exclude=True)
    _context: Context | None = PrivateAttr(default=None)

    def __init__(
        self, *, watch: Iterable[Any] | None = None, context: Context | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.rc = RoleContext(type(self).__name__)
        self._context = context
        self.set_actions(self.actions)
        self.watch([UserRequirement] if watch is None else watch)

    # What it can do, and what it hears

    def set_action(self, action: Action | type[Action]) -> None:
        """Have one action; see `set_actions`."""
        self.set_actions([action])

    def set_actions(self, actions: Actions) -> None:
        """Have these actions, and no others.

        Args:
            actions: Classes, which are made without arguments, or objects.

        Raises:
            RoleDeclarationError: Something else is among them (a TypeError).
        """
        given_actions = _listed(self, "set_actions", actions)
        made = [action() if isinstance(action, type) else action for action in given_actions]
        for action in made:
            given: object = action
            if not isinstance(given, Action):
                raise RoleDeclarationError(type(self).__name__, f"{type(given).__name__} is no Action")
            action.set_prefix(self.prefix())
        self.actions = made
        self.rc.state, self.rc.todo = -1, None

    def watch(self, actions: Iterable[Any], *, join: bool = False) -> None:
        """Hear the messages that these actions cause.

        Args:
            actions: Classes of actions, or their names. They replace those that were watched before.
            join: When one act gave out several subtasks, hear what follows from them together: once, as soon as the
                messages of all of them are there, instead of each by itself. These are added to what is watched.
        """
        causes = any_to_str_set(_listed(self, "watch", actions))
        if join:
            self.rc.joined |= causes
            self.rc.watch = (self.rc.watch - {any_to_str(UserRequirement)}) | causes
        else:
            self.rc.watch = causes | self.rc.joined

    def _watch(self, actions: Iterable[Any], *, join: bool = False) -> None:
        """As `watch`."""
        self.watch(actions, join=join)

    def is_watch(self, caused_by: str) -> bool:
        """Whether it hears what an action causes."""
        return caused_by in self.rc.watch

    @property
    def states(self) -> list[str]:
        """Its actions by number, as models are told."""
        return [f"{number}. {action}" for number, action in enumerate(self.actions)]

    # Who it is

    @property
    def agent_type(self) -> str:
        """Its agent type on the bus: its name, else its class."""
        return bus_name(self.name or type(self).__name__)

    @property
    def address(self) -> str:
        """The sender of its messages: its name, else its class with the module."""
        return self.name or any_to_str(self)

    @property
    def addresses(self) -> frozenset[str]:
        """Its names in `send_to`."""
        own = {any_to_str(self), type(self).__name__, self.agent_type}
        return frozenset(own | ({self.name} if self.name else set()))

    @property
    def post(self) -> Post:
        """The role, as far as it gets messages."""
        return Post(self.agent_type, self.addresses, frozenset(self.rc.watch), frozenset(self.rc.joined))

    def prefix(self) -> str:
        """The words about it that models read before every question."""
        who = " ".join(filter(None, (self.name, f"the {self.profile}" if self.profile else "")))
        parts = (
            self.desc,
            f"You are {who}." if who else "",
            f"Your goal: {self.goal}." if self.goal else "",
            f"Keep to this: {self.constraints}." if self.constraints else "",
        )
        return " ".join(filter(None, parts))

    @property
    def context(self) -> Context:
        """The context that it shares with the others of its environment."""
        if self._context is None:
            shared: Context = self.rc.env.context if self.rc.has_env else Context()
            self._context = shared
        return self._context

    @property
    def llm(self) -> Answering:
        """The language model of the context; a person, when the role is one."""
        return Person() if self.is_human else self.context.llm()

    @property
    def todo(self) -> Action | None:
        """The action that is next."""
        return self.rc.todo

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing to answer to and nothing to do, in this process."""
        return not self.rc.news and self.rc.todo is None

    # Answering

    async def run(self, with_message: str | Message | Sequence[Message] | None = None) -> Message | None:
        """Let it answer by itself, outside of an environment.

        Args:
            with_message: What it answers to; None: to nothing new.

        Returns:
            Its answer; None when there is nothing new.
        """
        given = [with_message] if isinstance(with_message, str | Message) else list(with_message or ())
        news = [Message(one) if isinstance(one, str) else one for one in given]
        news = [message for message in news if message not in self.rc.memory]
        return await self.answer(news) if news else None

    async def answer(self, news: Sequence[Message]) -> Message | None:
        """Answer to messages. The environment calls this.

        Returns:
            What it says; None: nothing.
        """
        self.rc.news = list(news)
        self.rc.memory.add_batch(news)
        for action in self.actions:
            action.set_context(self.context)
            action.set_llm(Person() if self.is_human else None)
        try:
            return await self.react()
        finally:
            self.rc.news = []
            self._set_state(-1)

    async def react(self) -> Message | None:
        """Answer to `rc.news`, as the mode says."""
        if self.rc.react_mode is RoleReactMode.PLAN_AND_ACT:
            return await self._plan_and_act()
        return await self._react()

    def _set_react_mode(self, react_mode: str, max_react_loop: int = 1) -> None:
        """Choose how it chooses among several actions.

        Args:
            react_mode: "react": a model chooses, until it says that nothing is left, at most `max_react_loop` times.
                "by_order": one after the other. "plan_and_act": a model makes a plan, and `_act_on_task` carries out each
                of its tasks.
            max_react_loop: See above.

        Raises:
            RoleDeclarationError: There is no such mode (a ValueError and an AssertionError).
        """
        if react_mode not in RoleReactMode.values():
            modes = "'react', 'by_order' or 'plan_and_act'"
            raise RoleDeclarationError("react_mode", f"{react_mode!r} is no way to react: {modes}")
        self.rc.react_mode = RoleReactMode(react_mode)
        self.rc.max_react_loop = max_react_loop

    async def _react(self) -> Message | None:
        return await act_in_loop(self)

    async def _plan_and_act(self) -> Message:
        return await act_by_plan(self)

    async def _think(self) -> bool:
        """Choose the next action, as `rc.todo`; False: there is none. To be overridden where another rule is needed."""
        if self.rc.react_mode is RoleReactMode.BY_ORDER:
            self._set_state(self.rc.state + 1)
        elif len(self.actions) == 1:
            self._set_state(0)
        elif self.actions:
            self._set_state(await choose_by_model(self))
        return self.rc.todo is not None

    async def _act(self) -> Message | None:
        """Carry out `rc.todo`, and make a message of what it returns; to be overridden where more has to be said."""
        if self.rc.todo is None:
            return None
        result = await self.rc.todo.run(self.rc.history)
        message = self._message_of(result, self.rc.todo)
        self.rc.memory.add(message)
        return message

    async def _act_on_task(self, current_task: Task) -> TaskResult:
        """Carry out one task of the plan; to be written for the mode "plan_and_act"."""
        raise NotImplementedError(f"{any_to_str(self)} has no _act_on_task(): write one for its plans.")

    def _message_of(self, result: Any, action: Action) -> Message:
        if isinstance(result, Message):
            return result if result.has_cause else result.model_copy(update={"cause_by": any_to_str(action)})
        content, data = "" if result is None else str(result), None
        if isinstance(result, ActionOutput):
            content, data = result.content, result.instruct_content
        elif isinstance(result, BaseModel):
            content, data = result.model_dump_json(), result
        return AIMessage(content=content, instruct_content=data, cause_by=action, sent_from=self.address)

    def _set_state(self, state: int) -> None:
        """Make an action the next one, by its number; -1, and numbers that there are not: none."""
        is_there = 0 <= state < len(self.actions)
        self.rc.state = state if is_there else -1
        self.rc.todo = self.actions[state] if is_there else None

    def cause(self) -> str:
        """The action that is under way; "" when there is none."""
        return any_to_str(self.rc.todo) if self.rc.todo is not None else ""

    # Speaking

    def publish_message(self, message: Message | None) -> None:
        """Say something besides the answer. Outside of an environment it is not heard.

        Raises:
            UnknownRoleError: It names a role that is not there (a LookupError).
        """
        if message is not None and self.rc.has_env:
            self.rc.env.publish_message(message)

    def get_memories(self, k: int = 0) -> list[Message]:
        """The newest `k` messages that it remembers; 0: all."""
        return self.rc.memory.get(k)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name or self.agent_type}>"
