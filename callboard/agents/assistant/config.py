"""An assistant as plain data, in AutoGen's shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, Field

from callboard.agents.handoff import Handoff
from callboard.foundation.component import ComponentModel, NotDumpableError, dumped
from callboard.memory.base import Memory
from callboard.memory.contexts.base import ChatCompletionContext
from callboard.messages.structured_factory import StructuredMessageFactory
from callboard.models.base import ChatCompletionClient
from callboard.models.recorded import unrecorded
from callboard.tools.base import BaseTool
from callboard.tools.unknown import IfUnknown
from callboard.tools.workbench import Workbench

from .setup import Setup


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
