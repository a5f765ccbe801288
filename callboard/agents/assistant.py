"""The agent that answers with a model and tools: what it is given, its checks, and its plain data."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, Field

from callboard.core.cancellation import CancellationToken
from callboard.core.people import OnInput, asking_by
from callboard.errors import did_you_mean
from callboard.foundation.component import Component, ComponentModel, NotDumpableError, dumped
from callboard.memory.base import Memory
from callboard.memory.contexts import (
    ChatCompletionContext,
    Conversation,
    SummarisingChatCompletionContext,
    UnboundedChatCompletionContext,
)
from callboard.memory.llm_messages import SystemMessage
from callboard.messages.chat import (
    BaseChatMessage,
    HandoffMessage,
    StopMessage,
    StructuredMessage,
    StructuredMessageFactory,
    TextMessage,
    ToolCallSummaryMessage,
)
from callboard.models.base import ChatCompletionClient
from callboard.models.recorded import recorded, unrecorded
from callboard.tools.approval import NeedsApproval
from callboard.tools.base import BaseTool, Tool
from callboard.tools.call import IfUnknown
from callboard.tools.function import FunctionTool
from callboard.tools.static import StaticStreamWorkbench
from callboard.tools.workbench import Workbench

from .base import BaseChatAgent, Response, Said, response_of
from .draft import Draft
from .errors import AgentSettingError
from .guardrails import Asks, Decision, Guardrail, GuardrailChain, decided_by_person
from .handoff import Handoff
from .turn import AssistantTurn, Setup, ToolCallSummaryFormatter, by_format

__all__ = []


class AssistantAgentState(BaseModel):
    """The state of an assistant; AutoGen's can be read, and AutoGen can read this.

    Attributes:
        llm_context: The state of its model context.
    """

    type: Literal["AssistantAgentState"] = "AssistantAgentState"
    version: str = "1.0.0"
    llm_context: Mapping[str, Any] = Field(default_factory=lambda: {"messages": []})


class AssistantAgentConfig(BaseModel):
    """An assistant as plain data; its fields are the arguments of AssistantAgent.

    A dump has a workbench in the place of tools, as AutoGen's. The last three fields are ours.
    """

    name: str
    model_client: ComponentModel
    tools: list[ComponentModel] | None = None
    workbench: list[ComponentModel] | None = None
    handoffs: list[Handoff | str] | None = None
    model_context: ComponentModel | None = None
    memory: list[ComponentModel] | None = None
    description: str
    system_message: str | None = None
    model_client_stream: bool = False
    reflect_on_tool_use: bool
    tool_call_summary_format: str
    max_tool_iterations: int = Field(default=1, ge=1)
    metadata: dict[str, str] | None = None
    structured_message_factory: ComponentModel | None = None
    max_answer_refusals: int | None = None
    if_unknown: dict[str, IfUnknown] | None = None
    needs_approval: dict[str, bool] | None = None


def config_of(setup: Setup, context: ChatCompletionContext, owner: Any) -> AssistantAgentConfig:
    """The config of an assistant.

    Args:
        setup: Its settings.
        context: Its context.
        owner: The assistant.

    Raises:
        NotDumpableError: Something in it is no component, or is a function that a dump can't do without (a TypeError).
    """
    _check(setup, owner)
    benches = setup.workbenches[:-1]  # the last one has the handoffs
    return AssistantAgentConfig(
        name=setup.name,
        model_client=dumped(unrecorded(setup.client), owner),
        workbench=[dumped(one, owner) for one in benches] or None,
        handoffs=list(setup.handoffs.values()) or None,
        model_context=dumped(context, owner),
        memory=[dumped(one, owner) for one in setup.memory] or None,
        description=owner.description,
        system_message=setup.system[0].content if setup.system else None,
        model_client_stream=setup.is_streamed,
        reflect_on_tool_use=setup.reflects,
        tool_call_summary_format=setup.summary_format,
        max_tool_iterations=setup.max_tool_iterations,
        metadata=dict(setup.metadata),
        structured_message_factory=_output_of(setup),
        max_answer_refusals=setup.max_answer_refusals,
        if_unknown=dict(setup.if_unknown) or None,
        needs_approval={name: needs is True for name, needs in setup.needs_approval.items()} or None,
    )


def arguments_of(config: AssistantAgentConfig) -> dict[str, Any]:
    """The arguments of AssistantAgent."""
    more: dict[str, Any] = {
        name: value
        for name in ("max_answer_refusals", "if_unknown", "needs_approval")
        if (value := getattr(config, name)) is not None
    }
    if config.structured_message_factory is not None:
        output = StructuredMessageFactory.load_component(config.structured_message_factory)
        more["output_content_type"] = output.ContentModel
        more["output_content_type_format"] = output.format_string
    if config.model_context is not None:
        more["model_context"] = ChatCompletionContext.load_component(config.model_context)
    return {
        "name": config.name,
        "model_client": ChatCompletionClient.load_component(config.model_client),
        "tools": _loaded(BaseTool, config.tools),
        "workbench": _loaded(Workbench, config.workbench),
        "handoffs": config.handoffs,
        "memory": _loaded(Memory, config.memory),
        "description": config.description,
        "system_message": config.system_message,
        "model_client_stream": config.model_client_stream,
        "reflect_on_tool_use": config.reflect_on_tool_use,
        "tool_call_summary_format": config.tool_call_summary_format,
        "max_tool_iterations": config.max_tool_iterations,
        "metadata": config.metadata,
        **more,
    }


def _loaded(kind: Any, dumps: Sequence[ComponentModel] | None) -> list[Any] | None:
    return [kind.load_component(dump) for dump in dumps] if dumps else None


def _check(setup: Setup, owner: object) -> None:
    cls = type(owner).__qualname__
    if setup.guardrails:
        raise NotDumpableError(cls, "its guardrails are functions, and without them it would be another one")
    if setup.on_input is not None:
        raise NotDumpableError(cls, "its on_input is a function")
    for tool, needs in setup.needs_approval.items():
        # guard: calls that have to be allowed are not dumped as calls that need not
        if not isinstance(needs, bool):
            raise NotDumpableError(cls, f"needs_approval of {tool} is a function or a rule")
    for handoff in setup.handoffs.values():
        if handoff.input_filter is not None:
            reason = (
                f"the input_filter of {handoff.name} is a function, and without it more would be handed over"
            )
            raise NotDumpableError(cls, reason)


def _output_of(setup: Setup) -> ComponentModel | None:
    if setup.output_type is None:
        return None
    return StructuredMessageFactory(None, setup.output_type, setup.output_format).dump_component()


DESCRIPTION: Final = "An agent that provides assistance with ability to use tools."
MAX_ANSWER_REFUSALS: Final = 2
SYSTEM_MESSAGE: Final = (
    "You are a helpful AI assistant. Solve tasks using your tools. "
    "Reply with TERMINATE when the task has been completed."
)


class AssistantAgent(BaseChatAgent, Component[AssistantAgentConfig]):
    """An agent that answers with a model, which may call tools and hand the conversation over.

    It takes what is new, asks its memories what they know about it, and asks its model. A text is its answer. Calls of
    tools are run, all at the same time; then the model is asked again, up to `max_tool_iterations` times, and at last the
    results are its answer: as they are, or put into words by the model. A handoff ends the turn at once.

    It remembers its conversation: give it only what is new. A turn that fails or is cancelled leaves no half turn behind:
    as long as no tool was called, its context is as it was before; afterwards every call has a result, which says so where
    the call was cut off. AutoGen's leaves calls without results, and servers refuse every later request.

    In a handler of the bus every answer of its model and every result of a tool is recorded before it is used: when the
    process dies in the middle of a turn, the next one goes on there and pays nothing twice.

    Dumps have AutoGen's shape, and AutoGen's are loaded. With guardrails or input filters it can't be dumped: they are
    functions.

    The parameters and their texts are AutoGen's; the last five are ours.

    Args:
        name: A Python identifier.
        model_client: Its model.
        tools: Tools, and functions that become tools. Not beside `workbench`.
        workbench: One or several workbenches with its tools; start and stop them yourself.
        handoffs: To whom it may hand over; a text is the name of an agent.
        model_context: What its model gets to see of the conversation; None: everything.
        description: What it can do, for those who choose who speaks.
        system_message: What every prompt begins with; None: nothing.
        model_client_stream: Whether the pieces of its texts are shown as they come.
        reflect_on_tool_use: Whether the model puts the results of the last calls into words; None: where there is an
            `output_content_type`.
        max_tool_iterations: How often the model may ask for tools in one turn.
        tool_call_summary_format: One line of an answer that is made of results; knows tool_name, arguments, result and
            is_error.
        tool_call_summary_formatter: A function for the same, of a call and its result; it is not dumped.
        output_content_type: The model of its answers, which are `StructuredMessage`s of it then; None: texts.
        output_content_type_format: How such an answer looks as a text; None: as JSON.
        memory: What is asked for what belongs to a task, in this order.
        metadata: Anything about it, as text.
        guardrails: What checks its tasks, its calls and its answers, in this order.
        max_answer_refusals: How often in a turn the model may write another answer in place of a refused one.
        if_unknown: By name of a tool, what to do when a crash left it unknown whether the tool did its work; see
            `IfUnknown`. Else it is as the tool's own `if_unknown` says.
        needs_approval: By name of a tool, also of one of a workbench, which of its calls a person has to allow before they
            are made; see `NeedsApproval`. Else it is as the tool itself says.
        on_input: Asks a person: for approvals, for guardrails that ask, and where a tool's outcome is unknown. None: on the
            bus the question waits for its answer without a process; elsewhere it is as the team says.

    Raises:
        AgentSettingError: The name is no identifier (a ValueError).
        AgentSettingError: Something does not fit together, or the model can't do it (a ValueError).
        ToolDeclarationError: Two tools have one name (a ValueError).
        AgentSettingError: `memory` is no list of memories (a TypeError).
        BadRequestError: `model_client` is none (a TypeError).
    """

    component_config_schema = AssistantAgentConfig
    component_version = 2
    component_provider_override = "callboard.agents.AssistantAgent"

    def __init__(
        self,
        name: str,
        model_client: ChatCompletionClient,
        *,
        tools: Sequence[Tool | Callable[..., Any]] | None = None,
        workbench: Workbench | Sequence[Workbench] | None = None,
        handoffs: Sequence[Handoff | str] | None = None,
        model_context: ChatCompletionContext | None = None,
        description: str = DESCRIPTION,
        system_message: str | None = SYSTEM_MESSAGE,
        model_client_stream: bool = False,
        reflect_on_tool_use: bool | None = None,
        max_tool_iterations: int = 1,
        tool_call_summary_format: str = "{result}",
        tool_call_summary_formatter: ToolCallSummaryFormatter | None = None,
        output_content_type: type[BaseModel] | None = None,
        output_content_type_format: str | None = None,
        memory: Sequence[Memory] | None = None,
        metadata: Mapping[str, str] | None = None,
        guardrails: Sequence[Guardrail] = (),
        max_answer_refusals: int = MAX_ANSWER_REFUSALS,
        if_unknown: Mapping[str, IfUnknown] | None = None,
        needs_approval: Mapping[str, NeedsApproval] | None = None,
        on_input: OnInput | None = None,
    ) -> None:
        super().__init__(name, description)
        if max_tool_iterations < 1:
            raise AgentSettingError(
                f"Maximum number of tool iterations must be greater than or equal to 1, got {max_tool_iterations}"
            )
        client = recorded(model_client)
        own_tools = tools_of(tools, client)
        own_handoffs = handoffs_of(handoffs, own_tools, client)
        self._setup = Setup(
            name=name,
            client=client,
            is_streamed=model_client_stream,
            system=() if system_message is None else (SystemMessage(content=system_message),),
            workbenches=workbenches_of(workbench, own_tools, own_handoffs),
            handoffs=own_handoffs,
            memory=memories_of(memory),
            reflects=output_content_type is not None if reflect_on_tool_use is None else reflect_on_tool_use,
            max_tool_iterations=max_tool_iterations,
            summary_format=tool_call_summary_format,
            formatter=tool_call_summary_formatter or by_format(tool_call_summary_format),
            output_type=output_content_type,
            output_format=output_content_type_format,
            guardrails=guardrails_of(guardrails),
            max_answer_refusals=max_answer_refusals,
            if_unknown=outcomes_of(own_tools, if_unknown),
            needs_approval=approvals_of(
                [*(tool.name for tool in own_tools), *own_handoffs], needs_approval, is_all=workbench is None
            ),
            on_input=on_input,
            metadata=dict(metadata or {}),
        )
        self._model_context = context_of(model_context)
        self._draft: Draft | None = None
        self._is_kept = False  # in a list of the bus

    @property
    def model_context(self) -> ChatCompletionContext:
        """Its memory of the conversation."""
        return self._model_context

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """The types of what it says."""
        output = self._setup.output_type
        types: list[type[BaseChatMessage]] = [TextMessage, ToolCallSummaryMessage, HandoffMessage]
        if self._setup.guardrails:
            types.append(StopMessage)
        return types if output is None else [*types, StructuredMessage[output]]  # type: ignore[valid-type]

    @property
    def hands_over(self) -> bool:
        """Whether it has handoffs."""
        return bool(self._setup.handoffs)

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        """Answer to what is new; see `BaseChatAgent.on_messages`."""
        return await response_of(self.on_messages_stream(messages, cancellation_token), self.name)

    def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[Said | Response, None]:
        """The same; yields what happens as it happens, and at last the Response."""
        return self._take_turn(self._setup, messages, cancellation_token)

    async def _take_turn(
        self, setup: Setup, messages: Sequence[BaseChatMessage], token: CancellationToken
    ) -> AsyncGenerator[Said | Response, None]:
        """Take a turn with settings that may be made for it."""
        if self._draft is not None:
            await self._draft.give_up()  # a turn whose reader has left without closing it
        self._draft = draft = Draft(self.name, self._model_context)
        async with draft:
            guardrails = GuardrailChain(setup.guardrails, self.on_guardrail_asks)
            turn = AssistantTurn(setup, guardrails, draft, messages, token)
            async with aclosing(turn.run()) as items:
                async for item in items:
                    yield item
        if self._draft is draft:
            self._draft = None

    async def on_guardrail_asks(self, asks: Asks) -> Decision:
        """Have a person decide where a guardrail asks: here as `on_input`, or the bus, asks people.

        Args:
            asks: The question.

        Returns:
            Passed, or Refused with the person's reason.

        Raises:
            UserInputError: No person can be asked (a RuntimeError).
        """
        with asking_by(self._setup.on_input):
            return await decided_by_person(self.name, asks)

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Forget the conversation, also what its context began with."""
        await self._model_context.clear()

    async def save_state(self) -> Mapping[str, Any]:
        """Its whole conversation, in AutoGen's shape."""
        return AssistantAgentState(llm_context=await self._model_context.save_state()).model_dump()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned, or AutoGen's.

        Raises:
            ValueError: It is no such state.
        """
        await self._model_context.load_state(AssistantAgentState.model_validate(state).llm_context)

    # For teams on the bus

    def keep_context_in(self, messages: Conversation) -> None:
        """Keep the messages of its context in a list; see `BaseChatAgent.keep_context_in`.

        A context of your own that saves more than its messages stays where it is, and is saved as a whole.
        """
        self._is_kept = self._model_context.is_only_messages
        if self._is_kept:
            self._model_context.keep_in(messages)

    async def save_beside_context(self) -> Mapping[str, Any] | None:
        """Nothing where its context is kept in a list; else all of it."""
        return None if self._is_kept else await self.save_state()

    # As a component

    def _to_config(self) -> AssistantAgentConfig:
        return config_of(self._setup, self._model_context, self)

    @classmethod
    def _from_config(cls, config: AssistantAgentConfig) -> Self:
        return cls(**arguments_of(config))


def context_of(given: ChatCompletionContext | None) -> ChatCompletionContext:
    """The context; the summaries of one that makes some are recorded like everything else that a model says."""
    if given is None:
        return UnboundedChatCompletionContext()
    if isinstance(given, SummarisingChatCompletionContext) and isinstance(
        given.model_client, ChatCompletionClient
    ):
        given.model_client = recorded(given.model_client)
    return given


def tools_of(given: Sequence[Tool | Callable[..., Any]] | None, client: ChatCompletionClient) -> list[Tool]:
    """The tools, with functions made into tools.

    Raises:
        AgentSettingError: The model can't call tools, or something is no tool (a ValueError).
    """
    if given is None:
        return []
    if not isinstance(given, Iterable):
        raise AgentSettingError(f"tools={given!r:.80} is no list: write tools=[...]")
    tools = [_tool(one) for one in given]
    if tools:  # an empty list comes of a configuration, and needs no model that can call
        _check_calls(client, "")
    return tools


def _tool(given: Any) -> Tool:
    if isinstance(given, Tool):
        return given
    if not callable(given):
        raise AgentSettingError(f"Unsupported tool type: {type(given)}")
    return FunctionTool(given)


def handoffs_of(
    given: Sequence[Handoff | str] | None, tools: Sequence[Tool], client: ChatCompletionClient
) -> dict[str, Handoff]:
    """The handoffs by the names of their tools.

    Raises:
        AgentSettingError: The model can't call tools, something is no handoff, or names are not unique (a ValueError).
    """
    if given is None:
        return {}
    _check_calls(client, ", which is needed for handoffs")
    handoffs = [_handoff(one) for one in given]
    names = [handoff.name for handoff in handoffs]
    if len(names) != len(set(names)):
        raise AgentSettingError(f"Handoff names must be unique: {names}")
    taken = {tool.name for tool in tools}
    for handoff in handoffs:
        if handoff.name in taken or handoff.target in taken:
            raise AgentSettingError(
                f"Handoff names must be unique from tool names: {handoff.name!r} or its target {handoff.target!r} is a tool"
            )
    return dict(zip(names, handoffs, strict=True))


def _handoff(given: Any) -> Handoff:
    if isinstance(given, str):
        return Handoff(target=given)
    if not isinstance(given, Handoff):
        raise AgentSettingError(f"Unsupported handoff type: {type(given)}")
    return given


def workbenches_of(
    given: Workbench | Sequence[Workbench] | None, tools: Sequence[Tool], handoffs: Mapping[str, Handoff]
) -> tuple[Workbench, ...]:
    """The workbenches, the last of which has the handoffs.

    Raises:
        AgentSettingError: There are tools beside them (a ValueError).
        ToolDeclarationError: Two tools have one name (a ValueError).
    """
    if given is not None and tools:
        raise AgentSettingError("Tools cannot be used with a workbench.")
    if given is None:
        given = StaticStreamWorkbench(tools)
    benches = (given,) if isinstance(given, Workbench) else tuple(given)
    return (*benches, StaticStreamWorkbench([handoff.handoff_tool for handoff in handoffs.values()]))


def memories_of(given: Sequence[Memory] | None) -> tuple[Memory, ...]:
    """The memories.

    Raises:
        AgentSettingError: It is no list of memories (a TypeError).
    """
    if given is None:
        return ()
    found: Any = given
    if not isinstance(found, list | tuple) or not all(isinstance(one, Memory) for one in found):
        wrong = (
            next((one for one in found if not isinstance(one, Memory)), None)
            if isinstance(found, list | tuple)
            else found
        )
        advice = "give memories, such as memory=[ListMemory()]"
        raise AgentSettingError(
            f"Expected a list of Memory, or None, got {type(found)} with {wrong!r:.80}: {advice}"
        )
    return tuple(found)


def guardrails_of(given: Sequence[Guardrail]) -> tuple[Guardrail, ...]:
    """The guardrails.

    Raises:
        AgentSettingError: Something else is among them (a ValueError).
    """
    for one in given:
        if not isinstance(one, Guardrail):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise AgentSettingError(
                f"{one!r} is no Guardrail: put it into a TaskGuardrail, a CallGuardrail or an AnswerGuardrail."
            )
    return tuple(given)


def outcomes_of(tools: Sequence[Tool], given: Mapping[str, IfUnknown] | None) -> dict[str, IfUnknown]:
    """By name of a tool, what to do when its outcome is unknown.

    Raises:
        AgentSettingError: One is to be called again with its key, and takes none (a ValueError).
    """
    found: dict[str, IfUnknown] = {}
    for tool in tools:
        if isinstance(tool, BaseTool) and tool.if_unknown is not None:
            found[tool.name] = tool.if_unknown
    found.update(given or {})
    for tool in tools:
        if (
            found.get(tool.name) == "idempotency_key"
            and isinstance(tool, FunctionTool)
            and not tool.takes_key
        ):
            raise AgentSettingError(
                f"{tool.name} is to be called again with its key, but has no parameter 'idempotency_key: str'."
            )
    return found


def approvals_of(
    names: Sequence[str], given: Mapping[str, NeedsApproval] | None, *, is_all: bool
) -> dict[str, NeedsApproval]:
    """By name of a tool, which of its calls a person has to allow.

    Args:
        names: Of the assistant's own tools and handoffs.
        given: By name.
        is_all: Whether it has no others.

    Raises:
        AgentSettingError: There is no tool of a name (a ValueError).
    """
    for name in given or ():
        # guard: a slip in a name does not let calls pass that a person has to allow
        if is_all and name not in names:
            raise AgentSettingError(
                f"needs_approval names {name!r}, which is none of the tools. {did_you_mean(name, names)}"
            )
    return dict(given or {})


def _check_calls(client: ChatCompletionClient, need: str) -> None:
    if client.model_info["function_calling"] is False:
        raise AgentSettingError(f"The model does not support function calling{need}.")
