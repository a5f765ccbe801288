"""Agents that ask a model, in processes of their own: `python -m tests.helpers.thinking URL NAMESPACE`.

The model writes down every time that it is asked, and answers with the id of its process. In the first attempt the
handlers stop for good once they have the answer, to be killed there.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence

from callboard import App, MessageContext, RoutedAgent, TopicId, event
from callboard.memory.llm_messages import LLMMessage
from callboard.models import (
    ChatCompletionClient,
    CreateResult,
    MeteredChatCompletionClient,
    RecordedChatCompletionClient,
    ReplayChatCompletionClient,
    RuntimeStore,
    UsageLedger,
    UserMessage,
)
from callboard.process.worker import run_worker
from callboard.runtime.runtime import RedisAgentRuntime

from .jobs import Effect, Job, note

app = App("thinking")


def think(messages: Sequence[LLMMessage]) -> str:
    note("asked", "model", 0, 0)
    return str(os.getpid())


def model() -> ChatCompletionClient:
    """A model whose answers are paid for."""
    client = ReplayChatCompletionClient(default=think)
    client.set_cached_bool_value(False)
    return MeteredChatCompletionClient(client, UsageLedger(RuntimeStore()))


class Thinker(RoutedAgent):
    """Asks a model, and publishes what it says."""

    def __init__(self, client: ChatCompletionClient) -> None:
        super().__init__("thinks")
        self.client = client

    async def ask(self, messages: Sequence[LLMMessage]) -> CreateResult:
        return await self.client.create(messages)

    @event
    async def on_job(self, message: Job, ctx: MessageContext) -> None:
        question = UserMessage(content=f"What about {message.seq}?", source="user")
        answer = await self.ask([question])
        note("answered", self.id.key, message.seq, ctx.attempt)
        if ctx.attempt == 1:
            await asyncio.Event().wait()
        effect = Effect(key=self.id.key, seq=message.seq, count=int(str(answer.content)))
        await self.publish_message(effect, TopicId("effects", self.id.key))


class Streaming(Thinker):
    """Has its answers streamed."""

    async def ask(self, messages: Sequence[LLMMessage]) -> CreateResult:
        *_, last = [item async for item in self.client.create_stream(messages)]
        assert isinstance(last, CreateResult)
        return last


@app.agent("recorded", topics=["recorded"])
class Recorded(Thinker):
    def __init__(self) -> None:
        super().__init__(RecordedChatCompletionClient(model()))


@app.agent("streamed", topics=["streamed"])
class Streamed(Streaming):
    def __init__(self) -> None:
        super().__init__(RecordedChatCompletionClient(model()))


@app.agent("plain", topics=["plain"])
class Plain(Thinker):
    """Without a record, to show that there would be something to pay."""

    def __init__(self) -> None:
        super().__init__(model())


async def main(url: str, namespace: str) -> None:
    """Works until it is told to stop."""
    runtime = RedisAgentRuntime.from_app(app, url, namespace=namespace)
    await run_worker(runtime, announce=lambda text: print(text, flush=True))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
