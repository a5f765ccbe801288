"""A conversation in the state of an agent: what a turn costs early and late.

Run as `python -m scripts.benchmarks.chat URL NAMESPACE`; it says what node.py says.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import NamedTuple

from pydantic import BaseModel

from callboard import AgentId, Log, MessageContext, RedisAgentRuntime, RoutedAgent, rpc
from callboard.broker import BrokerSettings
from callboard.cli.sessions import run
from callboard.memory.contexts import UnboundedChatCompletionContext
from callboard.models import AssistantMessage, LLMMessage, UserMessage

TEXT = "x" * 261
EARLY, LATE, WINDOW = 20, 2000, 100  # turns: before these so many are measured


class Said(BaseModel):
    """A turn of a user."""

    text: str


class Chat(RoutedAgent):
    """Adds what was said, and an answer of the same length."""

    class State(BaseModel):
        """The conversation."""

        thread: Log[LLMMessage] = Log()

    def __init__(self) -> None:
        super().__init__("talks")
        self.context = UnboundedChatCompletionContext(messages=self.state.thread)

    @rpc
    async def on_said(self, message: Said, ctx: MessageContext) -> int:
        await self.context.add_message(UserMessage(content=message.text, source="user"))
        seen = await self.context.get_messages()
        await self.context.add_message(AssistantMessage(content=message.text, source="model"))
        return len(seen)


class Used(NamedTuple):
    """What was used so far: bytes to the server, seconds of processor time here and there."""

    bytes: int
    cpu: float


async def _used(runtime: RedisAgentRuntime) -> Used:
    found = await runtime.transport.admin.command("INFO", "stats", "cpu")
    fields = dict(line.split(":", 1) for line in found.decode().split("\r\n") if ":" in line)
    server = float(fields["used_cpu_user"]) + float(fields["used_cpu_sys"])
    return Used(int(fields["total_net_input_bytes"]), server + time.process_time())


async def _turns(runtime: RedisAgentRuntime, count: int) -> Used:
    """Means of so many turns."""
    before = await _used(runtime)
    for _ in range(count):
        await runtime.send_message(Said(text=TEXT), AgentId("chat", "a"))
    after = await _used(runtime)
    return Used((after.bytes - before.bytes) // count, (after.cpu - before.cpu) / count)


async def main(url: str, namespace: str) -> None:
    """Measures the turns around EARLY, and the last ones before LATE."""
    runtime = RedisAgentRuntime(url, settings=BrokerSettings(namespace=namespace, url=url))
    async with runtime:
        await Chat.register(runtime, "chat", Chat)
        runtime.start()
        await runtime.ready()
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await _turns(runtime, EARLY)
        early = await _turns(runtime, WINDOW)
        await _turns(runtime, LATE - EARLY - 2 * WINDOW)
        late = await _turns(runtime, WINDOW)
    print(json.dumps({"early": early._asdict(), "late": late._asdict()}))


if __name__ == "__main__":
    run(main(*sys.argv[1:]))
