"""Parts of an agent's answers: the rules of who answers, functions and their calls, counts, and the question to a person."""

from __future__ import annotations

import functools
import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict

from callboard.agents.base import ChatAgent
from callboard.core import people as asking
from callboard.core.cancellation import CancellationToken
from callboard.core.context import ContextScope
from callboard.core.people import Question, can_ask
from callboard.foundation.tasks import in_thread, together
from callboard.foundation.texts import read_json
from callboard.memory.llm_messages import Image
from callboard.models.base import ToolLike
from callboard.runtime.steps import NumberedStep, running_context
from callboard.tools import FunctionTool, Tool
from callboard.tools.approval import allowed
from callboard.tools.base import BaseTool, checked_arguments
from callboard.tools.call import AskedCall, CheckedArguments
from callboard.tools.errors import ToolDeclarationError
from callboard.tools.schema import NAME, name_of, plain_function
from callboard.tools.static import PASSED_ON, needs_approval_of
from callboard.tools.workbench import describe_image

from .context_variables import takes_variables, with_variables
from .errors import GroupChatDeclarationError
from .events import ask_person, is_given, value_of
from .messages import Agent, Message

Reply: TypeAlias = str | Message | None
Answered: TypeAlias = tuple[bool, Reply]


class GroupPart(ABC):
    """The part of an agent in a group whose agents hand over to each other. AG2's patterns have one, in `callboard.ag2`.

    Such agents share their context variables: what one changes travels with its messages.
    """

    @abstractmethod
    def seen(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages, as the agent sees them."""
        ...

    @abstractmethod
    def hand_over(self, agent: Any, messages: Sequence[Message]) -> Message | None:
        """The message by which the agent hands over instead of an answer; None: it answers."""
        ...

    @abstractmethod
    def tools(self, agent: Any, messages: Sequence[Message]) -> Sequence[Mapping[str, Any]]:
        """Tools by which the agent's model may hand over now."""
        ...


Update: TypeAlias = Callable[..., Any]
"""Called with the agent and the messages before each answer; may be async."""


@dataclass(frozen=True)
class ReplyRule:
    """A function that may answer for an agent.

    Attributes:
        trigger: Whose messages it answers, see `check_trigger`.
        function: Called with the agent and ``messages=``, ``sender=``, ``config=``; may be async. It returns whether its
            answer counts, and the answer.
        config: Passed to the function.
    """

    trigger: Any
    function: Callable[..., Any]
    config: Any = None

    def __deepcopy__(self, memo: dict[int, Any]) -> ReplyRule:
        """For another conversation: it is shared, as the agents that it names are."""
        return self


def check_trigger(trigger: Any) -> None:
    """Refuse what is no trigger.

    A trigger is an agent, a class of agents, a name, a function of the sender, a list of these, or None: no sender.

    Raises:
        GroupChatDeclarationError: It is none of these (a ValueError).
    """
    if trigger is None or isinstance(trigger, str | type | ChatAgent) or callable(trigger):
        return
    if not isinstance(trigger, list | tuple):
        raise GroupChatDeclarationError(
            "A trigger is an agent, a class, a name, a function, or a list of these."
        )
    for one in trigger:
        check_trigger(one)


def is_triggered(trigger: Any, sender: Agent | None) -> bool:
    """Whether a trigger fits a sender."""
    if isinstance(trigger, list | tuple):
        return any(is_triggered(one, sender) for one in trigger)
    if trigger is None or sender is None:
        return trigger is sender
    if isinstance(trigger, str):
        return trigger == sender.name
    if isinstance(trigger, type):
        return isinstance(sender, trigger)
    return trigger is sender if isinstance(trigger, ChatAgent) else bool(trigger(sender))


Hook: TypeAlias = Callable[..., Any]
HOOKS: Final = (
    "process_last_received_message",
    "process_all_messages_before_reply",
    "process_message_before_send",
    "update_agent_state",
)


class Hooks:
    """Functions that change what an agent reads and says, by AG2's names; they may be async.

    `process_last_received_message` gets the content of the last message, `process_all_messages_before_reply` a list of all,
    `process_message_before_send` the arguments ``sender=``, ``message=``, ``recipient=`` and ``silent=``: each returns what
    takes its place. `update_agent_state` gets the agent and its messages.
    """

    def __init__(self) -> None:
        self._by_name: dict[str, list[Hook]] = {}

    def add(self, name: str, hook: Hook) -> None:
        """Call a function from now on, after those that are there.

        Raises:
            GroupChatDeclarationError: There is no such hook, or it has the function (a ValueError).
        """
        if name not in HOOKS:
            raise GroupChatDeclarationError(f"There is no hook {name!r}: there are {', '.join(HOOKS)}.")
        if hook in self._by_name.get(name, ()):
            raise GroupChatDeclarationError(f"The function is registered as {name!r} already.")
        self._by_name.setdefault(name, []).append(hook)

    async def before_reply(self, agent: Agent, messages: Sequence[Message]) -> Sequence[Message]:
        """What the agent reads, once its state is up to date."""
        for hook in self._by_name.get("update_agent_state", ()):
            await value_of(hook(agent, messages))
        for hook in self._by_name.get("process_all_messages_before_reply", ()):
            messages = await value_of(hook(list(messages)))
        hooks = self._by_name.get("process_last_received_message", ())
        last = messages[-1] if messages and hooks else {}
        content = last.get("content")
        if (
            not isinstance(content, str | list)
            or content == "exit"
            or "function_call" in last
            or "context" in last
        ):
            return messages
        for hook in hooks:
            content = await value_of(hook(content))
        return [*messages[:-1], {**last, "content": content}]

    async def before_send(self, sender: Agent, message: Any, recipient: Agent, silent: bool | None) -> Any:
        """What the agent says."""
        for hook in self._by_name.get("process_message_before_send", ()):
            message = await value_of(hook(sender=sender, message=message, recipient=recipient, silent=silent))
        return message

    def __deepcopy__(self, memo: dict[int, Any]) -> Hooks:
        """For another conversation: the same functions, in lists of its own."""
        mine = Hooks()
        mine._by_name = {name: list(hooks) for name, hooks in self._by_name.items()}
        return mine


MOST_REPLIES: Final = 100


class AutoReplies:
    """Counts of the answers that an agent gives without a person, and their limits, by whom it answers.

    Args:
        most: The limit for all; None: 100.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = MOST_REPLIES if most is None else most
        self._most_to: dict[Agent | None, int] = {}
        self._counts: dict[Agent | None, int] = {}

    def anew(self) -> AutoReplies:
        """Counts for another conversation, with the limit for all."""
        return AutoReplies(self._most)

    def most(self, sender: Agent | None) -> int:
        """The limit for an agent."""
        return self._most_to.get(sender, self._most)

    def limit(self, most: int, sender: Agent | None) -> None:
        """Set the limit for an agent; None: for all."""
        if sender is None:
            self._most = most
            self._most_to.clear()
        else:
            self._most_to[sender] = most

    def count(self, sender: Agent | None) -> int:
        """How many answers an agent has got."""
        return self._counts.get(sender, 0)

    def add(self, sender: Agent | None) -> None:
        """Count one more."""
        self._counts[sender] = self.count(sender) + 1

    def set(self, sender: Agent | None, count: int) -> None:
        """Go on from a count."""
        self._counts[sender] = count

    def reset(self, sender: Agent | None = None) -> None:
        """Begin to count again; None: for all agents."""
        if sender is None:
            self._counts.clear()
        else:
            self._counts.pop(sender, None)


FunctionMap: TypeAlias = Mapping[str, Callable[..., Any]]


class AgentFunctions:
    """Functions of an agent: those that it executes, and those that its model may call. Another agent may execute these.

    Args:
        executed: See above, by name.
        offered: See above; tools, too.

    Attributes:
        executed: See above.
        offered: The tools of its model.
    """

    def __init__(self, executed: FunctionMap, offered: Sequence[Any] = ()) -> None:
        self.executed: dict[str, Callable[..., Any]] = {}
        self.offered: list[ToolLike | Mapping[str, Any]] = []
        self._tools: dict[str, tuple[Callable[..., Any], Tool]] = {}
        self.update(executed)
        for function in offered:
            self.offer(function)

    def update(self, functions: Mapping[str, Callable[..., Any] | None]) -> None:
        """Execute functions, by name; None: no longer."""
        for name, function in functions.items():
            if function is None:
                self.executed.pop(name, None)
            else:
                self.executed[name] = function
                self.tool(name)  # now: the names in its annotations are known where it is registered

    def offer(self, function: Any, name: str | None = None, description: str | None = None) -> None:
        """Let the model call a function, or a tool."""
        if not isinstance(function, Tool):
            text = description or (function.__doc__ or "").strip()
            given = with_variables(function)
            function = FunctionTool(given, description=text, name=name or name_of(function))
        self.offered.append(function)

    def tool(self, name: str) -> Tool | None:
        """A function that it executes, as a tool: its arguments are checked and made, as those of any tool."""
        function = self.executed.get(name)
        if function is None or isinstance(function, Tool):
            return function
        known = self._tools.get(name)
        if known is None or known[0] is not function:
            known = self._tools[name] = (function, executed_tool(function, name))
        return known[1]

    def tools(self) -> dict[str, Tool]:
        """All functions that it executes, as tools."""
        found = {name: self.tool(name) for name in self.executed}
        return {name: tool for name, tool in found.items() if tool is not None}

    def __deepcopy__(self, memo: dict[int, Any]) -> AgentFunctions:
        """For another conversation: the same functions and tools, in lists of its own."""
        mine = AgentFunctions({})
        mine.executed, mine.offered, mine._tools = dict(self.executed), list(self.offered), dict(self._tools)
        return mine


def name_of_tool(function: Callable[..., Any]) -> str:
    """The name of a tool, or of a function."""
    return str(getattr(function, "name", None) or name_of(function))


class ExecutedFunction(FunctionTool):
    """A function that an agent executes. Parameters without a type take anything; the result is read as AG2 writes it."""

    def return_value_as_string(self, value: Any) -> str:
        """The result, as JSON where it can be."""
        return as_text(value)


class _AnyArguments(BaseModel):
    model_config = ConfigDict(extra="allow")


class UncheckedFunction(BaseTool[_AnyArguments, Any]):
    """A function whose arguments can't be described, such as ``**options``: it gets them as the model wrote them."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        super().__init__(_AnyArguments, object, name, "")
        self.function = function

    async def run(self, args: _AnyArguments, cancellation_token: CancellationToken) -> Any:
        """Call the function; an ordinary one in a thread."""
        call = partial(self.function, **(args.model_extra or {}))
        is_async = inspect.iscoroutinefunction(self.function)
        return await value_of(call() if is_async else await in_thread(f"callboard-tool-{self.name}", call))

    def return_value_as_string(self, value: Any) -> str:
        """The result, as JSON where it can be."""
        return as_text(value)


def executed_tool(function: Callable[..., Any], name: str) -> Tool:
    """A function as the tool that is called when an agent executes it.

    It gets the context variables where it has a parameter for them.
    """
    given = with_variables(function)
    called = name if NAME.match(name) else name_of(function)
    try:
        return ExecutedFunction(_typed(given), description=name, name=called)
    except ToolDeclarationError:
        return UncheckedFunction(given, called)


def _typed(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function all of whose parameters have a type: those without one take anything."""
    plain = inspect.signature(function)
    if all(one.annotation is not one.empty for one in plain.parameters.values()):
        return function
    parameters = [
        one.replace(annotation=Any) if one.annotation is one.empty else one
        for one in plain.parameters.values()
    ]
    is_async = inspect.iscoroutinefunction(plain_function(function))

    async def call_async(*args: Any, **kwargs: Any) -> Any:
        return await function(*args, **kwargs)

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    made: Any = functools.update_wrapper(call_async if is_async else call, function)
    made.__signature__ = plain.replace(parameters=parameters)
    return made  # type: ignore[no-any-return]


Executable: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[Any]]
"""Called with the arguments; what it returns is plain data, which is recorded."""
Executables: TypeAlias = Mapping[str, Executable]


def executables(tools: Mapping[str, Tool]) -> dict[str, Executable]:
    """Tools as they are executed for a model: each returns the text that it reads."""

    def of(tool: Tool) -> Executable:
        async def run(arguments: Mapping[str, Any]) -> str:
            return tool.return_value_as_string(await run_tool(tool, arguments))

        return run

    return {name: of(tool) for name, tool in tools.items()}


def share_variables(tools: Mapping[str, Tool], names: Iterable[str]) -> bool:
    """Whether one of these tools gets the context variables, which calls change one after the other."""
    functions = [getattr(tools.get(name), "function", None) for name in names]
    return any(function is not None and takes_variables(function) for function in functions)


_asking: ContextVar[str] = ContextVar("callboard_asking", default="")
"""Name of the question whether the function that is being called may be, the same in every attempt."""


async def execute(functions: Executables, name: str, arguments: str) -> tuple[bool, str]:
    """Call a function with arguments that a model wrote.

    On the bus what it returns is recorded for the message that is being handled. Nothing is awaited before its step begins:
    calls that are made together have their steps in the order of the calls.

    Args:
        functions: The functions by name.
        name: Of the one to call.
        arguments: A JSON object.

    Returns:
        Whether it succeeded, and what it returned or raised, as text for the model.
    """
    function = functions.get(name)
    if function is None:
        return False, f"Error: Function {name} not found."
    try:
        given = read_json(arguments or "{}")
    except ValueError as error:
        return False, f"Error: {error}\n The arguments must be in JSON format."
    if not isinstance(given, dict):
        return False, "Error: The arguments must be a JSON object."
    try:
        is_done, text = await _recorded(function, name, given)
        return is_done, text
    except Exception as error:  # noqa: BLE001 - the model hears of it
        return False, f"Error: {error}"


async def _recorded(function: Executable, name: str, arguments: Mapping[str, Any]) -> tuple[bool, str]:
    step = NumberedStep.begin(f"function:{name}")
    # Counted for every call, also for one that is recorded or has failed: else the next call of the tool would find the
    # answer that a person gave to this one.
    asking = NumberedStep.begin(f"approval:{name}")

    async def call() -> dict[str, Any]:
        with ContextScope(_asking, name if asking is None else asking.full_name):
            try:
                return {"is_done": True, "text": as_text(await function(arguments))}
            except PASSED_ON:
                raise
            except Exception as error:  # noqa: BLE001 - the model hears of it
                # Recorded as other results: else the next call of the function had this one's number, and in another
                # attempt this one would read the record of that.
                return {"is_done": False, "text": f"Error: {error}"}

    made = await (call() if step is None else step.run(call))
    return made["is_done"], made["text"]


async def run_tool(tool: Tool, arguments: Mapping[str, Any]) -> Any:
    """Run a tool, when a person has allowed the call as far as one has to: an agent asks as `run_tools` does.

    Args:
        tool: The tool.
        arguments: As a model wrote them.

    Raises:
        CallRefusedError: It is not allowed; the model reads why.
        CannotAskError: Nobody can be asked here (a RuntimeError).
        Exception: Any error of the tool.
    """
    needs = needs_approval_of(tool)
    if needs is False:
        return await tool.run_json(arguments, CancellationToken())

    async def check(given: Mapping[str, Any]) -> CheckedArguments:
        return checked_arguments(tool.args_type(), given, tool.name)

    async def parameters() -> Mapping[str, Any]:
        return dict(tool.schema.get("parameters", {}))

    call = AskedCall(tool.name, arguments, None)
    # guard: a tool whose calls have to be allowed is called by no agent that has not asked
    asked = await allowed(call, needs, check, parameters, _asking.get() or tool.name, running_context(), None)
    return await tool.run_json(asked.arguments or {}, CancellationToken())


def as_text(value: Any) -> str:
    """The result of a function, as a model reads it: as JSON where it can be."""
    if isinstance(value, Image):
        return f"[Image: {describe_image(value)}]"
    if isinstance(value, list | tuple) and any(isinstance(one, Image) for one in value):
        return "\n".join(map(as_text, value))
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return str(value)


async def answer_calls(functions: AgentFunctions, message: Message) -> Message | None:
    """The message that answers the calls of functions in another one.

    All calls are made at the same time, as AG2's async agents do; those that share context variables one after the other.

    Returns:
        None: it calls none.
    """
    tools = functions.tools()
    executed = executables(tools)
    old = message.get("function_call")
    if old:
        _, text = await execute(executed, old["name"], old.get("arguments", ""))
        return {"name": old["name"], "role": "function", "content": text}
    calls = [call for call in message.get("tool_calls") or () if call.get("type", "function") == "function"]
    if not calls:
        return None
    works = (_answer(executed, call) for call in calls)
    if share_variables(tools, [call["function"]["name"] for call in calls]):
        responses = [await work for work in works]
    else:
        responses = await together(works)
    content = "\n\n".join(response["content"] for response in responses)
    return {"role": "tool", "tool_responses": responses, "content": content}


async def _answer(functions: Executables, call: Mapping[str, Any]) -> Message:
    name = call["function"]["name"]
    _, text = await execute(functions, name, call["function"].get("arguments", ""))
    return {"tool_call_id": call.get("id", ""), "role": "tool", "content": text}


KIND: Final = "user_input"


async def human_input(prompt: str, agent: str) -> str:
    """The answer of a person: at the stream in force, on the bus from anywhere, else at the terminal.

    Args:
        prompt: The question.
        agent: Name of the agent that a person is behind.
    """
    step, context = NumberedStep.begin(f"input:{agent}"), running_context()
    if is_given() or not can_ask(context):
        return await ask_person(prompt)
    name = agent if step is None else step.full_name
    question = Question(text=prompt, name=name, details={"kind": KIND, "agent": agent})
    answer: str = await asking.ask_person(question, context)
    return answer
