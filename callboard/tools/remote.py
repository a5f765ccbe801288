"""Tools that run in another process: calls are requests, answered by an agent type of their own."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, create_model

from callboard.broker.ids import AgentId
from callboard.core.cancellation import CancellationToken
from callboard.core.context import MessageHandlerContext
from callboard.core.protocol import AgentRuntime
from callboard.core.subscriptions import AgentInstantiationContext
from callboard.errors import MisuseError

from .base import AnyArguments, Tool
from .call import CheckedArguments, current_tool_context
from .errors import ToolEndedError
from .schema import ToolSchema
from .workbench import ToolResult

SLOTS: Final = 256
"""Agent keys over which the calls are spread: so many can run at once, each agent runs one at a time."""


class ToolCallRequest(BaseModel):
    """Asks the tools' agent type to run a tool; the response is a ToolResult.

    Attributes:
        name: The tool's own name.
        arguments: Its arguments by name.
        call_id: The id that the model gave to the call; None: none.
        idempotency_key: Given to a tool that takes one; None: that of the request.
        is_allowed: Whether the caller has asked a person, as far as one has to allow it.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    arguments: dict[str, Any]
    call_id: str | None = None
    idempotency_key: str | None = None
    is_allowed: bool = False


class RemoteTool(Tool):
    """A tool of another process, as one that can be called here.

    Errors on the way, such as that no worker runs for it or that its process died too often, are raised; a workbench
    makes results of them. A request whose process dies is run again by another one: a tool that must not do something
    twice takes a MessageContext and uses its ``once`` or ``message_id``.

    Args:
        schema: The description that models get of it.
        on: Agent type that runs it; see ToolAgent.
        runtime: The runtime that sends its requests. None: that of the agent in whose constructor it is made, else
            the one of `tool_context`.
        timeout: Seconds to wait for the result; None: `request_timeout` of the settings.
    """

    def __init__(
        self,
        schema: ToolSchema,
        on: str,
        *,
        runtime: AgentRuntime | None = None,
        timeout: float | None = None,
    ) -> None:
        if runtime is None and AgentInstantiationContext.is_in_factory_call():
            runtime = AgentInstantiationContext.current_runtime()
        self._schema = schema
        self._on = on
        self._runtime = runtime
        self.timeout = timeout

    @property
    def name(self) -> str:
        """The name by which the model calls it."""
        return self._schema["name"]

    @property
    def description(self) -> str:
        """Its purpose, written for the model."""
        return self._schema.get("description", "")

    @property
    def schema(self) -> ToolSchema:
        """Name, description and arguments, as JSON schema."""
        return self._schema

    def args_type(self) -> type[BaseModel]:
        """A model that takes anything: the process that has the tool checks the arguments."""
        return create_model(f"{self.name}args", __base__=AnyArguments)

    def return_type(self) -> type[Any]:
        """ToolResult."""
        return ToolResult

    def state_type(self) -> type[BaseModel] | None:
        """None: what a tool elsewhere remembers is not ours."""
        return None

    def return_value_as_string(self, value: Any) -> str:
        """The text of the result."""
        return value.to_text() if isinstance(value, ToolResult) else str(value)

    async def run_json(
        self, args: Mapping[str, Any], cancellation_token: CancellationToken, call_id: str | None = None
    ) -> ToolResult:
        """Ask the other process to run it.

        Raises:
            ToolEndedError: No runtime is known here (a RuntimeError).
            UndeliverableException: No such agent type is declared.
            RequestTimeoutError: No answer came in time (a TimeoutError).
            MaxRuntimeError: It ran longer than its agent type may.
        """
        runtime: Any = self._runtime or current_tool_context().runtime
        if runtime is None:
            raise ToolEndedError(
                self.name,
                "it runs on the bus, and no runtime is known here: give runtime=, make the workbench in an agent's "
                "constructor, or call it inside `with tool_context(ctx, runtime=self.runtime):`",
            )
        runtime.add_message_types((ToolCallRequest, ToolResult))
        around = current_tool_context()
        request = ToolCallRequest(
            name=self.name,
            # The other process checks them in the same way. What a check has made of them is not checked again.
            arguments=dict(args.written if isinstance(args, CheckedArguments) else args),
            call_id=call_id,
            idempotency_key=around.idempotency_key,
            is_allowed=bool(around.allowed),
        )
        sender = _sender()
        options = {} if self.timeout is None else {"timeout": self.timeout}
        response: ToolResult = await runtime.send_message(
            request,
            AgentId(self._on, _slot(sender, request)),
            sender=sender,
            cancellation_token=cancellation_token,
            **options,
        )
        return response

    async def save_state_json(self) -> Mapping[str, Any]:
        """Nothing: what a tool elsewhere remembers is not ours."""
        return {}

    async def load_state_json(self, state: Mapping[str, Any]) -> None:
        """Nothing to take over."""


def _sender() -> AgentId | None:
    try:
        return MessageHandlerContext.agent_id()
    except MisuseError:
        return None


def _slot(sender: AgentId | None, request: ToolCallRequest) -> str:
    """The agent key for a call: the same when the caller's handler runs again, so that it is the same request."""
    what = request.call_id or json.dumps([request.name, request.arguments], sort_keys=True, default=repr)
    return str(zlib.crc32(f"{sender} {what}".encode(errors="replace")) % SLOTS)
