"""The application of the memory tests: two types that learn, and the service that remembers for both."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel

from callboard import App, MessageContext, RoutedAgent, event
from callboard.memory import HashingEmbedder, MemoryContent, MemoryMimeType
from callboard.memory.chroma_collection import INDEX
from callboard.memory_service import MemoryServiceClient, memory_service

SHARED = "shared"
"""Whose memory it is."""


class Lesson(BaseModel):
    """Remember facts `first` to `first + count - 1`."""

    first: int
    count: int


def fact(number: int) -> str:
    return f"fact {number}: {number * 7919 % 10007} apples weigh {number * 104729 % 99991} grams"


if "SYNC_EVERY" in os.environ:  # changes after which Chroma writes its index to files
    INDEX["sync_threshold"] = int(os.environ["SYNC_EVERY"])

app = App("learning")
# The default model embeds a few dozen texts a second on a busy machine: too slow for 4,000 in a test.
memory_service(app, os.environ.get("MEMORY_PATH", "unused"), embedder=HashingEmbedder())


class Learner(RoutedAgent):
    """Learns what it is told, for everybody. Writes a line for each start of its handler."""

    def __init__(self) -> None:
        super().__init__("learns")
        self.memory = MemoryServiceClient(self, SHARED)

    @event
    async def on_lesson(self, message: Lesson, ctx: MessageContext) -> None:
        with Path(os.environ["LEDGER"]).open("ab", buffering=0) as ledger:
            ledger.write(f"{message.first} {ctx.attempt}\n".encode())
        for number in range(message.first, message.first + message.count):
            content = MemoryContent(
                content=fact(number), mime_type=MemoryMimeType.TEXT, metadata={"number": number}
            )
            await self.memory.add(content)


@app.agent("left", topics=["left"])
class Left(Learner):
    """One process of the test."""


@app.agent("right", topics=["right"])
class Right(Learner):
    """The other."""
