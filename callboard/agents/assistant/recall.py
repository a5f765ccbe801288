"""What memories add to a prompt: recorded in handlers, so that another attempt has the same prompt."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from callboard.memory.base import Memory, MemoryContent, ModelContext
from callboard.memory.llm_messages import LLMMessage
from callboard.runtime.steps import NumberedStep


class Recalled(BaseModel):
    """What one memory had to say.

    Attributes:
        added: For the model.
        found: What it found.
    """

    added: list[LLMMessage] = Field(default_factory=list)
    found: list[MemoryContent] = Field(default_factory=list)


async def recall(memory: Memory, number: int, context: ModelContext) -> Recalled:
    """Ask a memory, and add what it says to a context.

    Args:
        memory: The memory.
        number: Of it among those of its assistant.
        context: Looked at, and added to.
    """
    step = NumberedStep.begin(f"memory:{number}")
    recalled = await _asked(memory, context) if step is None else await _recorded(step, memory, context)
    for message in recalled.added:
        await context.add_message(message)
    return recalled


async def _recorded(step: NumberedStep, memory: Memory, context: ModelContext) -> Recalled:
    async def ask() -> dict[str, Any]:
        return (await _asked(memory, context)).model_dump(mode="json")

    # guard: what a memory found stays so, else the model were asked again
    return Recalled.model_validate(await step.run(ask))


async def _asked(memory: Memory, context: ModelContext) -> Recalled:
    aside = _Aside(context)
    update = await memory.update_context(aside)
    return Recalled(added=aside.added, found=update.memories.results)


class _Aside:
    """A context with what is not yet added to it."""

    def __init__(self, context: ModelContext) -> None:
        self._context = context
        self.added: list[LLMMessage] = []

    async def get_messages(self) -> list[LLMMessage]:
        return [*await self._context.get_messages(), *self.added]

    async def add_message(self, message: LLMMessage) -> None:
        self.added.append(message)
