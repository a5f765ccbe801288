"""Assistants in processes of their own, to be killed in the middle: `python -m tests.helpers.assisting URL NAMESPACE`.

The model and the tool write down every time that they are asked. In the first attempt one of them never ends: the tool
for jobs of the topics "tool" and "told", the model's second answer for one of the topic "model".
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from pydantic import BaseModel

from callboard import App, Log, MessageContext, RoutedAgent, TopicId, event
from callboard.agents import AssistantAgent
from callboard.core.cancellation import CancellationToken
from callboard.memory.llm_messages import (
    FunctionCall,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
)
from callboard.messages import TextMessage
from callboard.models import ReplayChatCompletionClient
from callboard.models.replay import Answer
from callboard.process.worker import run_worker
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.tools import FunctionTool

from .jobs import Effect, Job, note

app = App("assisting")


async def work(ctx: MessageContext) -> str:
    """Works."""
    note("tool", "work", 0, ctx.attempt)
    if ctx.attempt == 1 and ctx.topic_id is not None and ctx.topic_id.type in ("tool", "told"):
        await asyncio.Event().wait()
    return "12"


class Host(RoutedAgent):
    """Has an assistant do each job, and publishes how many messages it remembers then."""

    class State(BaseModel):
        """What was said."""

        thread: Log[LLMMessage] = Log()

    def __init__(self) -> None:
        super().__init__("assists")
        self.attempt = 0
        self.topic = ""

    async def think(self, messages: Sequence[LLMMessage]) -> Answer:
        assert isinstance(messages[0], SystemMessage)
        asked = messages[-1]
        if not isinstance(asked, FunctionExecutionResultMessage):
            note("first", "model", 0, self.attempt)
            return [FunctionCall("1", "{}", "work")]
        note("second", "model", 0, self.attempt)
        if self.attempt == 1 and self.topic == "model":
            await asyncio.Event().wait()
        return f"it is {asked.content[0].content}"

    @event
    async def on_job(self, message: Job, ctx: MessageContext) -> None:
        self.attempt, self.topic = ctx.attempt, "" if ctx.topic_id is None else ctx.topic_id.type
        model = ReplayChatCompletionClient(default=self.think)
        tool = FunctionTool(work, if_unknown="tell" if self.topic == "told" else "retry")
        agent = AssistantAgent("ada", model, tools=[tool], max_tool_iterations=2)
        thread: Log[LLMMessage] = self.state.thread
        agent.keep_context_in(thread)
        said = await agent.on_messages([TextMessage(content="go", source="user")], CancellationToken())
        expected = "may or may not have done its work" if self.topic == "told" else "it is 12"
        assert expected in said.chat_message.to_text()
        effect = Effect(key=self.id.key, seq=message.seq, count=len(thread))
        await self.publish_message(effect, TopicId("effects", self.id.key))


app.agent("assistant", topics=["tool", "told", "model"])(Host)


async def main(url: str, namespace: str) -> None:
    """Works until it is told to stop."""
    runtime = RedisAgentRuntime.from_app(app, url, namespace=namespace)
    await run_worker(runtime, announce=lambda text: print(text, flush=True))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
