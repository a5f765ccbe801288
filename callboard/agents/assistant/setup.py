"""All that an assistant is made of, but for its conversation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

from pydantic import BaseModel

from callboard.agents.guardrails.guardrail import Guardrail
from callboard.agents.handoff import Handoff
from callboard.asking import OnInput
from callboard.memory.base import Memory
from callboard.memory.llm_messages import FunctionCall, FunctionExecutionResult, SystemMessage
from callboard.models.base import ChatCompletionClient
from callboard.models.info import ModelInfo
from callboard.tools.approval import NeedsApproval
from callboard.tools.unknown import IfUnknown
from callboard.tools.workbench import Workbench

from .summary import ToolCallSummaryFormatter

CallHere: TypeAlias = Callable[[FunctionCall], Awaitable[FunctionExecutionResult]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The settings of an assistant, shared by its conversations.

    Attributes:
        name: Of the agent; the source of all that it says.
        client: Its model, whose answers are recorded.
        is_streamed: Whether its answers are shown in pieces.
        system: What every prompt begins with.
        workbenches: Its tools; the last one has its handoffs.
        handoffs: By the names of their tools.
        memory: What is asked before it answers.
        reflects: Whether the model puts the results of tools into words.
        max_tool_iterations: How often the model may ask for tools in one turn.
        summary_format: What the formatter fills in, unless it is a function of the user's.
        formatter: Puts one result into words where the model does not.
        output_type: The model of its answers; None: they are texts.
        output_format: How people see that; None: as JSON.
        guardrails: What checks tasks, calls and answers.
        max_answer_refusals: How often the model may write another answer in place of a refused one.
        if_unknown: By tool, what to do when its outcome is unknown after a crash.
        needs_approval: By tool, which of its calls a person has to allow.
        on_input: Asks a person; None: whoever is asked where it runs.
        metadata: Anything about it.
        here: By tool, what carries out a call that changes nothing but the agent itself. Such calls are carried out one
            after the other before the others, in every attempt of a turn: they are not recorded, for a turn that is made
            again in another process begins with the agent as it was before.
    """

    name: str
    client: ChatCompletionClient
    is_streamed: bool
    system: tuple[SystemMessage, ...]
    workbenches: tuple[Workbench, ...]
    handoffs: Mapping[str, Handoff]
    memory: tuple[Memory, ...]
    reflects: bool
    max_tool_iterations: int
    summary_format: str
    formatter: ToolCallSummaryFormatter
    output_type: type[BaseModel] | None
    output_format: str | None
    guardrails: tuple[Guardrail, ...]
    max_answer_refusals: int
    if_unknown: Mapping[str, IfUnknown]
    needs_approval: Mapping[str, NeedsApproval]
    on_input: OnInput | None
    metadata: Mapping[str, str]
    here: Mapping[str, CallHere] = field(default_factory=dict)

    @property
    def model_info(self) -> ModelInfo:
        """The abilities of the model."""
        return self.client.model_info

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # conversations share it
