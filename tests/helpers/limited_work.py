"""Eight processes that ask one model below one limit: `python -m tests.helpers.limited_work URL NAMESPACE`.

They split off from one that has imported everything. The model writes down in the server's time that it was asked. Some
messages kill their process once, when they have their answer.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

from callboard import App, MessageContext, RoutedAgent, event
from callboard.memory.llm_messages import LLMMessage
from callboard.models import (
    Budget,
    MeteredChatCompletionClient,
    RecordedChatCompletionClient,
    ReplayChatCompletionClient,
    RuntimeStore,
    UsageLedger,
    UserMessage,
)
from callboard.runtime.runtime import RedisAgentRuntime

PROCESSES = 8
REQUESTS, TOKENS, EVERY = 8, 32, 1.0
DEADLY = ("0", "5", "10")
SHORT = {"max_tokens": 3}


def log_of(namespace: str) -> str:
    """The key of the stream that says when the model was asked, and which answers were recorded."""
    return f"{namespace}-log"


class Work:
    """What one process does."""

    def __init__(self, runtime: RedisAgentRuntime, namespace: str) -> None:
        self.command = runtime.transport.admin.command
        self.namespace = namespace
        model = ReplayChatCompletionClient(default=self.answer)
        model.set_cached_bool_value(False)
        limit = Budget("client", requests=REQUESTS, tokens=TOKENS, every=EVERY, when_over="wait")
        self.client = RecordedChatCompletionClient(
            MeteredChatCompletionClient(model, UsageLedger(RuntimeStore()), budgets=[limit])
        )

    async def answer(self, messages: Sequence[LLMMessage]) -> str:
        await self.command("XADD", log_of(self.namespace), "*", "asked", str(messages[-1].content))
        await asyncio.sleep(0.05)
        return "one two three"

    async def do(self, what: str, attempt: int) -> None:
        await self.client.create([UserMessage(content=what, source="user")], extra_create_args=SHORT)
        await self.command("XADD", log_of(self.namespace), "*", "answered", what)
        if what in DEADLY and await self.command("SETNX", f"{self.namespace}-killed-{what}", "1"):
            os.kill(os.getpid(), signal.SIGKILL)
        await self.command("HSET", f"{self.namespace}-done", what, str(attempt))


def app_of(work: list[Work]) -> App:
    """The app of a process; its work is there once it runs."""
    app = App("limited")

    @app.agent("asker", topics=["questions"])
    class Asker(RoutedAgent):
        def __init__(self) -> None:
            super().__init__("asks")

        @event
        async def on_question(self, message: str, ctx: MessageContext) -> None:
            await work[0].do(message, ctx.attempt)

    return app


async def work_until_killed(url: str, namespace: str) -> None:
    """Work as one process."""
    work: list[Work] = []
    async with RedisAgentRuntime.from_app(app_of(work), url, namespace=namespace) as runtime:
        work.append(Work(runtime, namespace))
        runtime.start()
        print("ready", os.getpid(), flush=True)
        await asyncio.Event().wait()


def main(url: str, namespace: str) -> None:
    """Split off the processes, which say when they work, and wait for their ends."""
    for _ in range(PROCESSES):
        if os.fork() == 0:
            asyncio.run(work_until_killed(url, namespace))
    for _ in range(PROCESSES):
        os.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
