"""A tool of LangChain as one of ours. LangChain need not be known here: what is used of it is its documented interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast, runtime_checkable

from pydantic import BaseModel, ConfigDict

from callboard.core.cancellation import CancellationToken

from .base import BaseTool
from .errors import not_a_tool
from .json_model import given_arguments, model_of_parameters
from .schema import ParametersSchema, to_parameters


@runtime_checkable
class LangChainTool(Protocol):
    """The part of a LangChain `BaseTool` that we use; ``args_schema`` is a pydantic model, a JSON schema, or None."""

    name: str
    description: str
    args_schema: Any

    async def ainvoke(self, input: Any, config: Any = None) -> Any:
        """Run it with a dict of its arguments."""
        ...


class _OneInput(BaseModel):
    """The arguments of a tool that takes one text."""

    model_config = ConfigDict(extra="forbid")

    input: str


class LangChainToolAdapter(BaseTool[BaseModel, Any]):
    """A tool of LangChain.

    Args:
        langchain_tool: The tool.

    Raises:
        ToolDeclarationError: It is none (a TypeError).
    """

    def __init__(self, langchain_tool: LangChainTool) -> None:
        if not isinstance(langchain_tool, LangChainTool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise not_a_tool(langchain_tool)
        self._tool = langchain_tool
        name, given = langchain_tool.name, langchain_tool.args_schema
        self._given_parameters = to_parameters(dict(given), name) if isinstance(given, Mapping) else None
        model = (
            model_of_parameters(self._given_parameters, name)
            if self._given_parameters
            else given or _OneInput
        )
        super().__init__(cast("type[BaseModel]", model), object, name, langchain_tool.description)

    def _describe(self) -> ParametersSchema:
        return self._given_parameters or super()._describe()

    async def run(self, args: BaseModel, cancellation_token: CancellationToken) -> Any:
        """Run it with checked arguments."""
        if self._given_parameters is not None:
            return await self._tool.ainvoke(given_arguments(args, self._given_parameters))
        if isinstance(args, _OneInput):
            return await self._tool.ainvoke(args.input)
        return await self._tool.ainvoke({name: getattr(args, name) for name in type(args).model_fields})
