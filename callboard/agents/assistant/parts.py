"""Reads what an assistant is given, and refuses what can't work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from callboard.agents.errors import AssistantSettingError, NotAMemoryError
from callboard.agents.guardrails.guardrail import Guardrail
from callboard.agents.handoff import Handoff
from callboard.errors import did_you_mean
from callboard.memory.base import Memory
from callboard.memory.contexts.base import ChatCompletionContext
from callboard.memory.contexts.summarising import SummarisingChatCompletionContext
from callboard.memory.contexts.windows import UnboundedChatCompletionContext
from callboard.models.base import ChatCompletionClient
from callboard.models.recorded import recorded
from callboard.tools.approval import NeedsApproval
from callboard.tools.base import BaseTool, Tool
from callboard.tools.function import FunctionTool
from callboard.tools.static import StaticStreamWorkbench
from callboard.tools.unknown import IfUnknown
from callboard.tools.workbench import Workbench


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
        AssistantSettingError: The model can't call tools, or something is no tool (a ValueError).
    """
    if given is None:
        return []
    _check_calls(client, "")
    return [_tool(one) for one in given]


def _tool(given: Any) -> Tool:
    if isinstance(given, Tool):
        return given
    if not callable(given):
        raise AssistantSettingError(f"Unsupported tool type: {type(given)}")
    return FunctionTool(given)


def handoffs_of(
    given: Sequence[Handoff | str] | None, tools: Sequence[Tool], client: ChatCompletionClient
) -> dict[str, Handoff]:
    """The handoffs by the names of their tools.

    Raises:
        AssistantSettingError: The model can't call tools, something is no handoff, or names are not unique (a ValueError).
    """
    if given is None:
        return {}
    _check_calls(client, ", which is needed for handoffs")
    handoffs = [_handoff(one) for one in given]
    names = [handoff.name for handoff in handoffs]
    if len(names) != len(set(names)):
        raise AssistantSettingError(f"Handoff names must be unique: {names}")
    taken = {tool.name for tool in tools}
    for handoff in handoffs:
        if handoff.name in taken or handoff.target in taken:
            raise AssistantSettingError(
                f"Handoff names must be unique from tool names: {handoff.name!r} or its target {handoff.target!r} is a tool"
            )
    return dict(zip(names, handoffs, strict=True))


def _handoff(given: Any) -> Handoff:
    if isinstance(given, str):
        return Handoff(target=given)
    if not isinstance(given, Handoff):
        raise AssistantSettingError(f"Unsupported handoff type: {type(given)}")
    return given


def workbenches_of(
    given: Workbench | Sequence[Workbench] | None, tools: Sequence[Tool], handoffs: Mapping[str, Handoff]
) -> tuple[Workbench, ...]:
    """The workbenches, the last of which has the handoffs.

    Raises:
        AssistantSettingError: There are tools beside them (a ValueError).
        DuplicateToolError: Two tools have one name (a ValueError).
    """
    if given is not None and tools:
        raise AssistantSettingError("Tools cannot be used with a workbench.")
    if given is None:
        given = StaticStreamWorkbench(tools)
    benches = (given,) if isinstance(given, Workbench) else tuple(given)
    return (*benches, StaticStreamWorkbench([handoff.handoff_tool for handoff in handoffs.values()]))


def memories_of(given: Sequence[Memory] | None) -> tuple[Memory, ...]:
    """The memories.

    Raises:
        NotAMemoryError: It is no list of memories (a TypeError).
    """
    if given is None:
        return ()
    found: Any = given
    if not isinstance(found, list | tuple) or not all(isinstance(one, Memory) for one in found):
        raise NotAMemoryError(str(type(found)))
    return tuple(found)


def guardrails_of(given: Sequence[Guardrail]) -> tuple[Guardrail, ...]:
    """The guardrails.

    Raises:
        AssistantSettingError: Something else is among them (a ValueError).
    """
    for one in given:
        if not isinstance(one, Guardrail):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise AssistantSettingError(
                f"{one!r} is no Guardrail: put it into a TaskGuardrail, a CallGuardrail or an AnswerGuardrail."
            )
    return tuple(given)


def outcomes_of(tools: Sequence[Tool], given: Mapping[str, IfUnknown] | None) -> dict[str, IfUnknown]:
    """By name of a tool, what to do when its outcome is unknown.

    Raises:
        AssistantSettingError: One is to be called again with its key, and takes none (a ValueError).
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
            raise AssistantSettingError(
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
        AssistantSettingError: There is no tool of a name (a ValueError).
    """
    for name in given or ():
        # guard: a slip in a name does not let calls pass that a person has to allow
        if is_all and name not in names:
            raise AssistantSettingError(
                f"needs_approval names {name!r}, which is none of the tools. {did_you_mean(name, names)}"
            )
    return dict(given or {})


def _check_calls(client: ChatCompletionClient, need: str) -> None:
    if client.model_info["function_calling"] is False:
        raise AssistantSettingError(f"The model does not support function calling{need}.")
