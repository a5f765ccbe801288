"""Runs code that was approved, and says how it went."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final, Self

from callboard.agents.calling import call
from callboard.cancellation import CancellationToken
from callboard.code import CodeBlock, CodeExecutor, CodeResult
from callboard.memory.llm_messages import LLMMessage
from callboard.runtime.steps import NumberedStep

from .approval import ApprovalFuncType, ApprovalRequest, ApprovalResponse
from .blocks import fenced

DIGITS: Final = 32  # of the code's hash
REFUSED: Final = "Code execution was not approved. Reason: {reason}"
SILENT: Final = "The code ran and wrote nothing; its exit code was {code}. Where output is expected, it has to be printed."
FAILED: Final = "The code ended with the exit code {code}, which means an error. It wrote:\n{output}"


class CodeRunner:
    """Runs code blocks after an approval.

    In a handler on the bus the approval and the result are recorded, each before it is used: after a crash nobody is asked
    again, and code that has run does not run again. Code that was running when its process died does: it can't be
    known how far it came.

    Args:
        executor: Runs the code.
        approval: Asked first; None: everything is approved.
    """

    def __init__(self, executor: CodeExecutor, approval: ApprovalFuncType | None) -> None:
        self.executor = executor
        self.approval = approval

    async def run(
        self, blocks: Sequence[CodeBlock], context: Sequence[LLMMessage], token: CancellationToken
    ) -> CodeResult:
        """What the blocks came to, in words for a model; exit code 1 where they were not approved.

        Args:
            blocks: The code.
            context: Shown to who approves.
            token: Stops it.
        """
        code = fenced(blocks)
        if self.approval is not None:
            answer = await self._approved(ApprovalRequest(code=code, context=list(context)), token)
            if not answer.approved:
                return CodeResult(1, REFUSED.format(reason=answer.reason))
        # guard: code that has run is not run again
        step = NumberedStep.begin(f"code:{_digest(code)}")
        ran = await (self._ran(blocks, token) if step is None else step.run(self._ran, blocks, token))
        return in_words(CodeResult(ran["exit_code"], ran["output"]))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # conversations share it

    async def _approved(self, request: ApprovalRequest, token: CancellationToken) -> ApprovalResponse:
        # guard: an approval is asked for once
        step = NumberedStep.begin(f"approval:{_digest(request.code)}")
        found = await (self._asked(request, token) if step is None else step.run(self._asked, request, token))
        return ApprovalResponse.model_validate(found)

    async def _asked(self, request: ApprovalRequest, token: CancellationToken) -> dict[str, Any]:
        if self.approval is None:
            return {"approved": True, "reason": ""}
        answer: ApprovalResponse = await call(self.approval, request, token=token)
        return answer.model_dump()

    async def _ran(self, blocks: Sequence[CodeBlock], token: CancellationToken) -> dict[str, Any]:
        result = await self.executor.execute_code_blocks(list(blocks), token)
        return {"exit_code": result.exit_code, "output": result.output}


def in_words(result: CodeResult) -> CodeResult:
    """A result whose output says what to make of it where it is silent, or an error."""
    if not result.output.strip():
        return CodeResult(result.exit_code, SILENT.format(code=result.exit_code))
    if result.exit_code:
        return CodeResult(result.exit_code, FAILED.format(code=result.exit_code, output=result.output))
    return result


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]
