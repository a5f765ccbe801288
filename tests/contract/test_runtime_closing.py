"""What a runtime leaves behind when it is stopped or closed."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import pytest

from callboard import AgentId, ClosureContext, MessageContext, RedisAgentRuntime, TopicId
from callboard.broker import BrokerSettings
from callboard.broker.errors import ServerUnavailableError
from callboard.broker.redis.client.transport import RedisTransport
from callboard.errors import MisuseError
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Answer, Ask, Note, Runtimes, closure, quick


async def _echo(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
    return Answer(text=message.text)


class Traces:
    """What this process and the server have of a namespace, looked at from outside."""

    def __init__(self, url: str) -> None:
        self._look = RedisTransport(url, BrokerSettings(namespace="traces"))
        self._is_memory = url.startswith("memory:")
        self._tasks = set(asyncio.all_tasks())
        self._threads = set(threading.enumerate())

    async def keys(self, runtime: RedisAgentRuntime | str) -> list[str]:
        prefix = runtime if isinstance(runtime, str) else runtime.transport.keys.prefix
        return await self._look.names_after(prefix)

    async def connections(self) -> list[str]:
        """Names of the connections of runtimes; the one that looks is called admin as well."""
        if self._is_memory:
            return []
        listed: bytes = await self._look.admin.command("CLIENT", "LIST")
        names = [word[5:] for word in listed.decode().split() if word.startswith("name=callboard-")]
        return sorted(names)

    def tasks(self) -> list[str]:
        """New tasks; those in which fakeredis itself lets a blocking read run out are not ours."""
        found = [str(task) for task in asyncio.all_tasks() - self._tasks]
        return [task for task in found if "AsyncFakeSocket._async_blocking" not in task]

    def threads(self) -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread not in self._threads]

    async def close(self) -> None:
        await self._look.close()


async def test_close_leaves_nothing_behind(server_url: str) -> None:
    traces = Traces(server_url)
    before = await traces.connections()
    runtime = RedisAgentRuntime(server_url, settings=replace(quick("x"), namespace=None))
    await closure(runtime, "echo", _echo, "news")
    async with runtime:
        prefix = runtime.transport.keys.prefix
        runtime.start()
        await runtime.send_message(Ask(), AgentId("echo", "a"))
        await runtime.publish_message(Ask(), TopicId("news", "a"), delay=100, message_id="one")
        await runtime.publish_message(Note(), TopicId("lonely", "a"))
        assert await traces.keys(runtime)
    assert prefix.startswith("callboard:{run-")
    assert await traces.keys(prefix) == []
    await eventually(lambda: not traces.tasks(), what=traces.tasks)
    assert traces.threads() == []
    await eventually(lambda: _is(traces, before))
    await traces.close()


async def _is(traces: Traces, before: list[str]) -> bool:
    return await traces.connections() in (before, ["callboard-admin"])


async def test_a_stop_leaves_no_task_and_no_thread(runtimes: Runtimes) -> None:
    traces = Traces(runtimes.url)
    runtime = runtimes.new()
    await closure(runtime, "echo", _echo)
    for _ in range(2):
        runtime.start()
        await runtime.publish_message(Ask(), TopicId("echo:x", "a"))
        await runtime.stop_when_idle()
    await eventually(lambda: not traces.tasks(), what=traces.tasks)
    assert traces.threads() == []
    await traces.close()


async def test_a_named_namespace_stays(server_url: str, runtimes: Runtimes) -> None:
    traces = Traces(server_url)
    runtime = runtimes.new()
    await runtime.publish_message(Note(), TopicId("news", "a"))
    prefix = runtime.transport.keys.prefix
    await runtime.close()
    assert "topic:news" in await traces.keys(prefix)
    await traces.close()


async def test_close_goes_on_when_an_agent_can_not_be_closed(runtimes: Runtimes) -> None:
    from callboard import BaseAgent

    class Stubborn(BaseAgent):
        """Does not want to be closed."""

        async def on_message_impl(self, message: object, ctx: MessageContext) -> None: ...

        async def close(self) -> None:
            closed.append(self.id.key)
            if self.id.key == "a":
                raise OSError("no")

    closed: list[str] = []
    traces = Traces(runtimes.url)
    runtime = await runtimes.started()
    await Stubborn.register(runtime, "stubborn", lambda: Stubborn(""))
    for key in ("a", "b"):
        await runtime.get("stubborn", key, lazy=False)
    with pytest.raises(OSError, match="no"):
        await runtime.close()
    assert sorted(closed) == ["a", "b"]
    await eventually(lambda: not traces.tasks(), what=traces.tasks)
    await runtime.close()
    await traces.close()


async def test_a_runtime_without_a_server_says_so_and_can_be_closed() -> None:
    runtime = RedisAgentRuntime("unix:///nowhere/at-all.sock", settings=quick("main"))
    with pytest.raises(ServerUnavailableError, match="nowhere"):
        await runtime.open()
    with pytest.raises(ServerUnavailableError):
        await runtime.publish_message(Note(), TopicId("news", "a"))
    runtime.start()
    with pytest.raises(ServerUnavailableError):
        await runtime.ready()
    runtime.start()
    with pytest.raises(ServerUnavailableError):
        await runtime.stop_when_idle()
    await runtime.close()


async def test_what_a_runtime_knows_before_it_is_open() -> None:
    runtime = RedisAgentRuntime("memory://never")
    assert (runtime.worker, runtime.handled, runtime.failed, runtime.unprocessed_messages_count) == (
        "",
        0,
        0,
        0,
    )
    with pytest.raises(MisuseError, match="not connected"):
        _ = runtime.transport
    await runtime.close()
    assert isinstance(runtime, RedisAgentRuntime)
