"""The role: what it watches, which actions it has, and how it answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from .action import Action, ActionOutput, UserRequirement
from .context import Context
from .errors import ReactModeError, RoleDeclarationError
from .llm import Answering, Person
from .message import AIMessage, Message
from .names import any_to_str, any_to_str_set, bus_name
from .plan import Planner, Task, TaskResult
from .reacting import act_by_plan, act_in_loop, choose_by_model
from .role_context import RoleContext, RoleReactMode
from .routing import Post

Actions = Iterable[Action | type[Action]]


class Role(BaseModel):
    """Somebody who does something when an action that it watches was done.

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
        made = [action() if isinstance(action, type) else action for action in actions]
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
        causes = any_to_str_set(list(actions))
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
        """What its messages name as their sender: its name, else its class with the module."""
        return self.name or any_to_str(self)

    @property
    def addresses(self) -> frozenset[str]:
        """What it may be called in `send_to`."""
        own = {any_to_str(self), type(self).__name__, self.agent_type}
        return frozenset(own | ({self.name} if self.name else set()))

    @property
    def post(self) -> Post:
        """The role, as far as it gets messages."""
        return Post(self.agent_type, self.addresses, frozenset(self.rc.watch), frozenset(self.rc.joined))

    def prefix(self) -> str:
        """What models are told about it, before every question."""
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
        """What it shares with the others of its environment."""
        if self._context is None:
            self._context = self.rc.env.context if self.rc.has_env else Context()
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
            ReactModeError: There is no such mode (a ValueError and an AssertionError).
        """
        if react_mode not in RoleReactMode.values():
            raise ReactModeError(react_mode)
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
        """Say something besides the answer. Outside of an environment nobody hears it.

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
