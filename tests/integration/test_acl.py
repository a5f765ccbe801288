"""The users that `callboard acl` describes: each can do its work on a real server, and nothing else."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from callboard import AgentId, App, MessageContext, RoutedAgent, TopicId, event, rpc
from callboard.broker import BrokerSettings
from callboard.broker.errors import CommandError
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.operations import deadletters
from callboard.broker.redis.operations.acl import (
    OPERATOR,
    PUBLISHER,
    REPLIES,
    ROLES,
    RUNTIME,
    SAMPLES,
    Role,
    rules,
)
from callboard.broker.redis.operations.doctor import examine
from callboard.broker.redis.operations.inspect import overview
from callboard.broker.redis.operations.repair import repair
from callboard.runtime.runtime import RedisAgentRuntime
from tests.helpers.eventually import eventually
from tests.helpers.servers import Kind, ServerProcess, missing

ROOT = Path(__file__).parents[2]
NAMESPACE = "shop"


class Note(BaseModel):
    text: str


class Count(BaseModel):
    total: int


app = App(NAMESPACE)


async def effect() -> int:
    return 1


@app.agent("counter", topics=["notes"], max_attempts=2)
class Counter(RoutedAgent):
    class State(BaseModel):
        total: int = 0

    @event
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        if message.text == "fail":
            raise LookupError("as told")
        self.state.total += await ctx.once("count", effect)
        await self.publish_message(
            Note(text="heard"), TopicId("echoes", self.id.key), now=message.text == "now"
        )
        await self.publish_message(Note(text="later"), TopicId("echoes", self.id.key), delay=0.01)

    @rpc
    async def on_count(self, message: Count, ctx: MessageContext) -> Count:
        return Count(total=self.state.total)


@pytest.fixture(scope="module", params=["redis", "embedded"])
def server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    kind: Kind = request.param
    if reason := missing(kind):
        pytest.skip(reason)
    with ServerProcess(kind, "tcp") as running:
        yield running


@pytest.fixture
async def admin(server: ServerProcess) -> AsyncIterator[RedisTransport]:
    """The default user of a server where the three roles exist."""
    transport = RedisTransport(server.url, BrokerSettings(namespace=NAMESPACE))
    await transport.admin.command("FLUSHALL")
    await transport.admin.command("FUNCTION", "FLUSH")
    await transport.admin.command("ACL", "LOG", "RESET")
    for role in ROLES:
        await transport.admin.command(
            "ACL", "SETUSER", role, "reset", "on", f">{role}", *rules(role, NAMESPACE)
        )
    yield transport
    await transport.close()


def url_of(server: ServerProcess, role: Role) -> str:
    return server.url.replace("://", f"://{role}:{role}@")


async def denials(admin: RedisTransport) -> list[dict[str, Any]]:
    found = await admin.admin.command("ACL", "LOG")
    return [
        {name.decode(): value for name, value in zip(flat[::2], flat[1::2], strict=True)} for flat in found
    ]


async def test_each_role_can_do_its_work(server: ServerProcess, admin: RedisTransport) -> None:
    settings = BrokerSettings(namespace=NAMESPACE, retry_base=0.01, retry_cap=0.02)
    async with RedisAgentRuntime.from_app(app, url_of(server, "worker"), settings=settings) as worker:
        worker.start()
        await worker.ready()
        async with RedisAgentRuntime.from_app(
            app, url_of(server, "publisher"), settings=settings, types=()
        ) as publisher:
            for text in ("one", "now", "fail"):
                await publisher.publish_message(Note(text=text), TopicId("notes", "a"))
            await publisher.publish_message(Note(text="late"), TopicId("notes", "a"), delay=0.05)
            for _ in range(2):
                await publisher.publish_message(Note(text="id"), TopicId("notes", "a"), message_id="once")

            async def all_counted() -> bool:
                count = await publisher.send_message(Count(total=0), AgentId("counter", "a"))
                return bool(count == Count(total=4))

            await eventually(all_counted)
        await _look_after(url_of(server, "operator"))
    assert await denials(admin) == []


async def _look_after(url: str) -> None:
    operator = RedisTransport(url, BrokerSettings(namespace=NAMESPACE))
    assert len(await deadletters.list_letters(operator, "counter")) == 1
    await deadletters.replay(operator, "counter", None)
    assert (await overview(operator)).totals.done > 0
    assert (await repair(operator)).left == ()
    report = await examine(operator)
    assert not [finding for finding in report.findings if "could not be checked" in finding.what]
    assert [finding.level for finding in report.findings if finding.check == "permissions"] == ["ok"]
    await operator.close()


FORBIDDEN: dict[str, tuple[str, ...]] = {
    "FLUSHALL": (),
    "FLUSHDB": (),
    "KEYS": ("*",),
    "CONFIG SET": ("maxmemory", "1"),
    "CONFIG REWRITE": (),
    "SHUTDOWN": ("NOSAVE",),
    "SLOWLOG RESET": (),
    "EVAL": ("return 1", "0"),
    "SCRIPT LOAD": ("return 1",),
    "RESTORE": ("{key}", "0", "x"),
    "DUMP": ("{key}",),
    "MIGRATE": ("127.0.0.1", "1", "x", "0", "1"),
    "REPLICAOF": ("NO", "ONE"),
    "SAVE": (),
    "BGREWRITEAOF": (),
    "ACL SETUSER": ("x",),
    "ACL LIST": (),
    "CLIENT KILL": ("TYPE", "normal"),
    "CLIENT LIST": (),
    "MONITOR": (),
    "MODULE LIST": (),
    "FUNCTION FLUSH": (),
    "FUNCTION DELETE": ("x",),
    "SWAPDB": ("0", "1"),
    "RENAME": ("{key}", "{key}2"),
    "SUBSCRIBE": ("x",),
    "PUBLISH": ("x", "y"),
    "GET": ("another:key",),
    "SET": ("another:key", "1"),
    "XADD": ("callboard:{other}:topic:notes", "*", "a", "b"),
}
ONLY_PUBLISHER: dict[str, tuple[str, ...]] = {
    "FUNCTION LOAD": ("REPLACE", "#!lua name=x\nredis.register_function('x', function() end)"),
    "HGET": ("callboard:{shop}:state:counter:a", "d"),
    "XRANGE": ("callboard:{shop}:topic:notes", "-", "+"),
    "XREAD": ("STREAMS", "callboard:{shop}:topic:notes", "0"),
    "DEL": ("callboard:{shop}:topic:notes",),
    "XADD": ("callboard:{shop}:dead:counter", "*", "a", "b"),
    "HSET": ("callboard:{shop}:busy:counter", "a", "b"),
    "XACK": ("callboard:{shop}:topic:notes", "counter", "1-1"),
    "SCAN": ("0",),
}


@pytest.mark.parametrize("role", ROLES)
async def test_nobody_can_do_more(server: ServerProcess, admin: RedisTransport, role: Role) -> None:
    user = RedisTransport(url_of(server, role), BrokerSettings(namespace=NAMESPACE))
    key = user.keys.of("topic:notes")
    await admin.admin.command("XADD", key, "*", "type", "Note")
    more = list(ONLY_PUBLISHER.items()) if role == "publisher" else []
    allowed = []
    for name, arguments in [*FORBIDDEN.items(), *more]:
        words = [*name.split(), *(word.replace("{key}", key) for word in arguments)]
        try:
            allowed.append((name, await user.admin.command(*words)))
        except CommandError as refused:
            if not str(refused).startswith("NOPERM"):
                allowed.append((name, refused))
    await user.close()
    assert allowed == []
    assert len(FORBIDDEN) >= 20


def test_the_lists_name_every_command_that_the_functions_run() -> None:
    folder = Path(str(resources.files("callboard.broker.redis"))) / "lua"
    for role, names in {"runtime": RUNTIME, "operator": OPERATOR}.items():
        known = {name.replace("|", " ") for name in names}
        for path in folder.rglob("*.lua"):
            if role == "runtime" and path.parent.name == "repair":
                continue
            for command, second in re.findall(r"call\('([A-Z]+)'(?:, '([A-Z]+)')?", path.read_text("utf-8")):
                words = f"{command} {second}" if command in ("XGROUP", "XINFO") else command
                assert words.lower() in known, f"{role}: {words} in {path.name}"


def test_the_lists_name_every_command_that_python_sends() -> None:
    known = {name.split("|")[0] for name in (*OPERATOR, "auth", "select")}
    for path in (ROOT / "broker").rglob("*.py"):
        for command in re.findall(
            r"\b(?:command|call|_command)\(\s*\"([A-Z]{2,})\"", path.read_text("utf-8")
        ):
            assert command.lower() in known, f"{command} in {path.name}"


def test_the_roles_need_nothing_that_is_not_known() -> None:
    assert set(PUBLISHER) | set(REPLIES) <= set(SAMPLES)
    assert set(RUNTIME) <= set(OPERATOR)
