"""Python code as a tool that a model calls. Names and behaviour are those of `autogen_ext.tools.code_execution`."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, Field, model_serializer

from callboard.core.cancellation import CancellationToken
from callboard.foundation.component import Component, ComponentModel, dumped
from callboard.tools import BaseTool

from .base import CodeBlock, CodeExecutor

__all__ = [
    "CodeExecutionInput",
    "CodeExecutionResult",
    "PythonCodeExecutionTool",
    "PythonCodeExecutionToolConfig",
]


class CodeExecutionInput(BaseModel):
    """The model's code."""

    code: str = Field(description="The Python code to run; what it prints is the result")


class CodeExecutionResult(BaseModel):
    """The output, for the model. As data it is the output alone, as in AutoGen."""

    success: bool
    output: str

    @model_serializer
    def _as_output(self) -> str:
        return self.output


class PythonCodeExecutionToolConfig(BaseModel):
    """A PythonCodeExecutionTool as plain data.

    Attributes:
        executor: What runs the code.
    """

    executor: ComponentModel


class PythonCodeExecutionTool(
    BaseTool[CodeExecutionInput, CodeExecutionResult], Component[PythonCodeExecutionToolConfig]
):
    """Runs Python code that a model wrote, and returns what it prints.

    Args:
        executor: Runs it. It is started and stopped where it was made.
    """

    component_config_schema = PythonCodeExecutionToolConfig
    component_provider_override = "callboard.code.PythonCodeExecutionTool"

    def __init__(self, executor: CodeExecutor) -> None:
        super().__init__(
            CodeExecutionInput, CodeExecutionResult, "CodeExecutor", "Execute Python code blocks."
        )
        self._executor = executor

    async def run(
        self, args: CodeExecutionInput, cancellation_token: CancellationToken
    ) -> CodeExecutionResult:
        result = await self._executor.execute_code_blocks(
            [CodeBlock(args.code, "python")], cancellation_token
        )
        return CodeExecutionResult(success=result.exit_code == 0, output=result.output)

    def _to_config(self) -> PythonCodeExecutionToolConfig:
        return PythonCodeExecutionToolConfig(executor=dumped(self._executor, self))

    @classmethod
    def _from_config(cls, config: PythonCodeExecutionToolConfig) -> Self:
        return cls(CodeExecutor.load_component(config.executor))
