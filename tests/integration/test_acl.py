"""The users that `callboard acl` describes: each can do its work on a real server, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any, Self

import pytest
from pydantic import BaseModel

from callboard import (
    AgentId,
    App,
    CancellationToken,
    MessageContext,
    RoutedAgent,
    TopicId,
    UnheardError,
    event,
    rpc,
)
from callboard.broker import BrokerSettings, envelope as claims
from callboard.broker.errors import (
    CommandError,
    OverloadedError,
    RequestTimeoutError,
    ServerUnavailableError,
)
from callboard.broker.redis.catalogue import CATALOGUE, kind_of
from callboard.broker.redis.client import connection as follower
from callboard.broker.redis.client.blocking import BlockingWire
from callboard.broker.redis.client.endpoint import Endpoint
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.library import OPERATIONS, library
from callboard.broker.redis.operations import deadletters
from callboard.broker.redis.operations.acl import (
    DEPLOY,
    KEY,
    OPERATOR,
    PUBLISHER,
    PUBLISHER_ON,
    ROLES,
    RUNTIME,
    SAMPLES,
    Role,
    rules,
)
from callboard.broker.redis.operations.doctor import examine
from callboard.broker.redis.operations.inspect import overview
from callboard.broker.redis.operations.namespaces import Deployed, code_on, delete_old_libraries, deploy
from callboard.broker.redis.operations.repair import repair
from callboard.runs import a_run
from callboard.runtime.errors import RunRightsError
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import RoundRobinGroupChat, list_runs
from tests.helpers.chat import Echo
from tests.helpers.eventually import eventually
from tests.helpers.forwarder import Forwarder
from tests.helpers.servers import Kind, ServerProcess, kinds

ROOT = Path(__file__).parents[2]
NAMESPACE = "shop"


class Note(BaseModel):
    text: str


class Count(BaseModel):
    total: int
    more: str = ""


app = App(NAMESPACE)


async def effect() -> int:
    return 1


@app.agent("counter", topics=["notes"], prefixes=["new."], max_attempts=2)
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
        return Count(total=self.state.total, more="x" * message.total)


@app.agent("quiet")
class Quiet(RoutedAgent):
    @rpc
    async def on_count(self, message: Count, ctx: MessageContext) -> Count:
        return message

    @rpc
    async def on_note(self, message: Note, ctx: MessageContext) -> str:
        return await ctx.ask(message.text)


@pytest.fixture(scope="module", params=kinds())
def server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    kind: Kind = request.param
    with ServerProcess(kind, "tcp") as running:
        yield running


@pytest.fixture
async def admin(server: ServerProcess) -> AsyncIterator[RedisTransport]:
    """The default user of a server where the roles exist, and the functions, which no role but one may load."""
    transport = RedisTransport(server.url, BrokerSettings(namespace=NAMESPACE))
    await transport.admin.command("FLUSHALL")
    await transport.admin.command("FUNCTION", "FLUSH")
    await transport.admin.command("ACL", "LOG", "RESET")
    for role in ROLES:
        await transport.admin.command(
            "ACL", "SETUSER", role, "reset", "on", f">{role}", *rules(role, NAMESPACE, role)
        )
    await deploy(transport)
    yield transport
    await transport.close()


def url_of(server: ServerProcess, role: Role) -> str:
    return server.url.replace("://", f"://{role}:{role}@")


async def test_an_operator_answers_and_a_publisher_does_not(
    server: ServerProcess, admin: RedisTransport
) -> None:
    settings = BrokerSettings(namespace=NAMESPACE)
    async with contextlib.AsyncExitStack() as all_of_them:

        async def opened(role: Role, *types: str) -> RedisAgentRuntime:
            made = RedisAgentRuntime.from_app(app, url_of(server, role), settings=settings, types=types)
            return await all_of_them.enter_async_context(made)

        (await opened("worker", "quiet")).start()
        publisher, operator = await opened("publisher"), await opened("operator")
        asking = asyncio.create_task(
            publisher.send_message(Note(text="May it?"), AgentId("quiet", "a"), timeout=20)
        )
        (question,) = await eventually(operator.inputs.list, 10, what="a question")
        with pytest.raises(CommandError, match=r"NOPERM.*callboard acl ROLE"):
            await publisher.inputs.list()
        await operator.inputs.answer(question.id, "It may.")
        assert await asking == "It may."


async def test_a_publisher_begins_a_run_of_a_team_and_is_told_before_that_it_may_not_read_it(
    server: ServerProcess, admin: RedisTransport
) -> None:
    settings, poems = BrokerSettings(namespace=NAMESPACE), App(NAMESPACE)
    team = poems.team(RoundRobinGroupChat([Echo("a")], name="poets", max_turns=1))
    async with contextlib.AsyncExitStack() as all_of_them:

        async def opened(role: Role, *types: str) -> RedisAgentRuntime:
            made = RedisAgentRuntime.from_app(poems, url_of(server, role), settings=settings, types=types)
            return await all_of_them.enter_async_context(made)

        worker = await opened("worker", "poets", "poets.a")
        worker.start()
        await worker.ready()
        publisher, operator = await opened("publisher"), await opened("operator")
        client = team.on(publisher, "sea")
        with pytest.raises(RunRightsError, match="callboard acl operator"):
            await client.run(task="go")
        with pytest.raises(RunRightsError):
            await a_run(team, message="go", runtime=publisher)
        assert await list_runs(worker) == await list_runs(operator) == []
        await client.start(task="go", run_id="one")
        result = await team.on(operator, "sea").run(task="go", run_id="one")
        assert len(result.messages) == 2
        assert [run.run_id for run in await list_runs(worker)] == ["one"]


# The functions


async def test_without_the_functions_no_role_can_load_them_and_each_is_told_who_can(
    server: ServerProcess, admin: RedisTransport
) -> None:
    await admin.admin.command("FUNCTION", "FLUSH")
    for role in ("worker", "publisher", "operator"):
        runtime = RedisAgentRuntime.from_app(app, url_of(server, role), namespace=NAMESPACE, types=["quiet"])
        with pytest.raises(CommandError, match="`callboard acl deploy` prints") as refused:
            await _begun(runtime)
        assert refused.value.is_undeployed
    await _examined(server, "operator", "lacks the functions of this version")
    deployer = RedisTransport(url_of(server, "deploy"), BrokerSettings())
    assert [await deploy(deployer), await deploy(deployer)] == [Deployed.LOADED, Deployed.THERE]
    await deployer.close()
    await _examined(server, "operator", "are on the server as they are here", "ok")


async def _begun(runtime: RedisAgentRuntime) -> None:
    async with runtime:
        runtime.start()
        await runtime.ready()


async def _examined(server: ServerProcess, role: Role, says: str, level: str = "error") -> None:
    transport = RedisTransport(url_of(server, role), BrokerSettings(namespace=NAMESPACE))
    report = await examine(transport)
    await transport.close()
    own = next(finding for finding in report.findings if finding.check == "libraries")
    assert (own.level, says in own.what) == (level, True), own


async def test_a_running_worker_that_may_not_load_functions_waits_until_they_are_there_again(
    server: ServerProcess, admin: RedisTransport, caplog: pytest.LogCaptureFixture
) -> None:
    settings = BrokerSettings(namespace=NAMESPACE)
    async with RedisAgentRuntime.from_app(app, url_of(server, "worker"), settings=settings) as worker:
        worker.start()
        await worker.send_message(Count(total=0), AgentId("quiet", "a"))
        await admin.admin.command("FUNCTION", "FLUSH")
        await eventually(lambda: "callboard deploy" in caplog.text, 10, what="the sentence in the log")
        await deploy(admin)
        await eventually(lambda: _answers(worker), 20, what="an answer")


async def _answers(runtime: RedisAgentRuntime) -> bool:
    try:
        return bool(await runtime.send_message(Count(total=0), AgentId("quiet", "a"), timeout=1))
    except (RequestTimeoutError, CommandError, ServerUnavailableError):
        return False


BURGLAR = (
    "redis.register_function('{name}_{operation}', "
    "function() return redis.call('GET', 'callboard:{{other}}:secret') end)"
)
"""A function in the place of one of ours, which reads another namespace with the rights of who calls it."""


@pytest.mark.parametrize("role", ["worker", "operator", "publisher"])
async def test_a_user_of_one_namespace_puts_no_code_in_the_place_of_what_another_runs(
    server: ServerProcess, admin: RedisTransport, role: Role
) -> None:
    """Whoever may replace the library reads the keys of `other` as soon as a worker of `other` calls it."""
    await admin.admin.command("SET", "callboard:{other}:secret", "s3cret")
    ours = library()
    named = f"#!lua name={ours.name}\n" + "\n".join(
        BURGLAR.format(name=ours.name, operation=operation) for operation in OPERATIONS
    )
    user = RedisTransport(url_of(server, role), BrokerSettings(namespace=NAMESPACE))
    attempts: list[tuple[str, ...]] = [
        ("FUNCTION", "LOAD", "REPLACE", named),
        ("FUNCTION", "DELETE", ours.name),
        ("FUNCTION", "RESTORE", "x", "REPLACE"),
        ("FUNCTION", "FLUSH"),
        ("FUNCTION", "LOAD", named.replace(ours.name, "callboard_other")),
    ]
    for words in attempts:
        with pytest.raises(CommandError, match="NOPERM"):
            await user.admin.command(*words)
    await user.close()
    assert await admin.admin.run("idle", ("",)) != b"s3cret"
    await _examined(server, "operator", "are on the server as they are here", "ok")


async def test_functions_that_were_replaced_all_the_same_are_named_and_put_right(
    server: ServerProcess, admin: RedisTransport
) -> None:
    name = library().name
    text = f"#!lua name={name}\n{BURGLAR.format(name=name, operation='idle')}"
    await admin.admin.command("FUNCTION", "LOAD", "REPLACE", text)
    await _examined(server, "operator", "somebody has replaced them")
    deployer = RedisTransport(url_of(server, "deploy"), BrokerSettings())
    assert await deploy(deployer) == Deployed.REPLACED
    await deployer.close()
    await _examined(server, "operator", "are on the server as they are here", "ok")


async def test_two_versions_side_by_side_need_one_deployment_each(
    server: ServerProcess, admin: RedisTransport
) -> None:
    """The functions of a version that comes do not touch those of the one that goes, and are there for its workers."""
    old = "#!lua name=callboard_0ld\nredis.register_function('callboard_0ld_do', function() return 1 end)"
    await admin.admin.command("FUNCTION", "LOAD", old)
    deployer = RedisTransport(url_of(server, "deploy"), BrokerSettings())
    assert await deploy(deployer) == Deployed.THERE
    settings = BrokerSettings(namespace=NAMESPACE)
    async with RedisAgentRuntime.from_app(app, url_of(server, "worker"), settings=settings) as worker:
        worker.start()
        assert await _answers(worker)
    worker_link = RedisTransport(url_of(server, "worker"), settings)
    assert await worker_link.admin.command("FCALL", "callboard_0ld_do", 0) == 1
    await worker_link.close()
    assert await delete_old_libraries(deployer) == ("callboard_0ld",)
    await deployer.close()


async def test_after_a_failover_a_worker_that_may_not_load_functions_finds_them_on_the_replica() -> None:
    with (
        ServerProcess(access="tcp", options=("--repl-diskless-sync-delay", "0")) as primary,
        ServerProcess(access="tcp") as replica,
        Forwarder(primary.port) as address,
    ):
        settings = BrokerSettings(namespace=NAMESPACE)
        old, new = (RedisTransport(each.url, settings) for each in (primary, replica))
        for each in (old, new):
            await each.admin.command(
                "ACL", "SETUSER", "worker", "reset", "on", ">worker", *rules("worker", NAMESPACE)
            )
        await new.admin.command("REPLICAOF", "127.0.0.1", primary.port)
        await deploy(old)

        async def has_followed() -> bool:
            return await code_on(new) == library().text

        await eventually(has_followed, 30)
        url = address.url.replace("://", "://worker:worker@")
        async with RedisAgentRuntime.from_app(app, url, settings=settings) as worker:
            worker.start()
            await eventually(lambda: _answers(worker), 30, what="an answer by way of the primary")

            async def has_caught_up() -> bool:
                return bool(await old.admin.command("WAIT", 1, 0))

            # What the primary takes with it is not what this is about.
            await eventually(has_caught_up, 30)
            primary.kill()
            await new.admin.command("REPLICAOF", "NO", "ONE")
            address.target = replica.port
            await eventually(lambda: _answers(worker), 30, what="an answer by way of the new primary")
        for each in (old, new):
            await each.close()


async def test_the_doctor_warns_of_a_confined_user_who_may_load_functions(
    server: ServerProcess, admin: RedisTransport
) -> None:
    await admin.admin.command("ACL", "SETUSER", "worker", "+function|load")  # as the rules once were
    for role in ("worker", "operator"):
        transport = RedisTransport(url_of(server, role), BrokerSettings(namespace=NAMESPACE))
        found = [one.level for one in (await examine(transport)).findings if "may load functions" in one.what]
        assert found == (["warning"] if role == "worker" else [])
        await transport.close()
    report = await examine(admin)
    assert not [one for one in report.findings if "is confined to keys" in one.what]


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
    assert [one for one in await denials(admin) if one["object"] != b"config|get"] == []


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
    "FUNCTION RESTORE": ("x",),
    "CONFIG GET": ("requirepass",),
    "SLOWLOG GET": ("1",),
    "SWAPDB": ("0", "1"),
    "RENAME": ("{key}", "another:key"),
    "SUBSCRIBE": ("x",),
    "PUBLISH": ("x", "y"),
    "GET": ("another:key",),
    "SET": ("another:key", "1"),
    "XADD": ("callboard:{other}:topic:notes", "*", "a", "b"),
}
# Functions are of all namespaces.
NOT_CONFINED: dict[str, tuple[str, ...]] = {
    "FUNCTION DELETE": ("x",),
    "FUNCTION LOAD": ("REPLACE", "#!lua name=x\nredis.register_function('x', function() end)"),
}
NOT_PUBLISHER: dict[str, tuple[str, ...]] = {
    "HGET": ("callboard:{shop}:state:counter:a", "d"),
    "XRANGE": ("callboard:{shop}:topic:notes", "-", "+"),
    "XREAD": ("STREAMS", "callboard:{shop}:topic:notes", "0"),
    "DEL": ("callboard:{shop}:topic:notes",),
    "XADD": ("callboard:{shop}:dead:counter", "*", "a", "b"),
    "XACK": ("callboard:{shop}:topic:notes", "counter", "1-1"),
    "SCAN": ("0",),
    "XTRIM": ("callboard:{shop}:topic:notes", "MAXLEN", "0"),
    "UNLINK": ("callboard:{shop}:timers",),
    "HSET": ("callboard:{shop}:topics", "notes", ""),
    "ZRANGE": ("callboard:{shop}:timers", "0", "-1"),
    "HGETALL": ("callboard:{shop}:timer:1",),
    "HMGET": ("callboard:{shop}:blob:1", "body"),
    "XINFO STREAM": ("callboard:{shop}:topic:notes", "FULL"),
    "XREAD COUNT 1": ("STREAMS", "callboard:{shop}:reply:other:host:1:ab", "0"),
}


@pytest.mark.parametrize("role", ROLES)
async def test_nobody_can_do_more(server: ServerProcess, admin: RedisTransport, role: Role) -> None:
    user = RedisTransport(url_of(server, role), BrokerSettings(namespace=NAMESPACE))
    key = user.keys.of("topic:notes")
    await admin.admin.command("XADD", key, "*", "type", "Note")
    more = NOT_PUBLISHER if role in ("publisher", "deploy") else {}
    beyond = {} if role == "deploy" else NOT_CONFINED
    allowed = []
    for name, arguments in {**FORBIDDEN, **beyond, **more}.items():
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
            if role == "runtime" and path.parent.name in ("repair", "retype"):
                continue
            for command, second in re.findall(r"call\('([A-Z]+)'(?:, '([A-Z]+)')?", path.read_text("utf-8")):
                words = f"{command} {second}" if command in ("XGROUP", "XINFO") else command
                assert words.lower() in known, f"{role}: {words} in {path.name}"


def test_the_lists_name_every_command_that_python_sends() -> None:
    # Where the user may not, CONFIG GET is done without.
    known = {name.split("|")[0] for name in (*OPERATOR, "auth", "select", "config")}
    for path in (ROOT / "callboard" / "broker").rglob("*.py"):
        for command in re.findall(
            r"\b(?:command|call|_command)\(\s*\"([A-Z]{2,})\"", path.read_text("utf-8")
        ):
            assert command.lower() in known, f"{command} in {path.name}"


def test_the_roles_need_nothing_that_is_not_known() -> None:
    assert {*PUBLISHER, *(name for names in PUBLISHER_ON.values() for name in names)} <= set(SAMPLES)
    assert set(RUNTIME) <= set(OPERATOR)


# Every command of the server, on every key


def one_key_of(pattern: str) -> str:
    return f"callboard:{{{NAMESPACE}}}:{pattern.replace('reply:*', 'reply:publisher:*').replace('*', 'x')}"


KEYS = {
    **{one_key_of(kind.glob): kind.glob for kind in CATALOGUE},
    one_key_of("blob:*:reply"): "blob:*:reply",
    one_key_of("reply:other:*"): "another's replies",
    one_key_of("unknown"): "unknown",
    "callboard:{other}:topic:x": "another namespace",
    "other": "not ours",
}
# Where the keys of a command are depends on its arguments.
MOVING = {
    "fcall": ("fcall", "f", "1", KEY),
    "fcall_ro": ("fcall_ro", "f", "1", KEY),
    "xread": ("xread", "STREAMS", KEY, "0"),
    "xreadgroup": ("xreadgroup", "GROUP", "g", "c", "STREAMS", KEY, ">"),
    "migrate": ("migrate", "h", "1", KEY, "0", "1"),
    "object|encoding": ("object", "encoding", KEY),
    "rename": ("rename", KEY, KEY),
    "renamenx": ("renamenx", KEY, KEY),
    "sunionstore": ("sunionstore", KEY, KEY),
}
NUMBERED = ("eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro")


def words_of(name: str, arity: int, first: int, is_moving: bool) -> tuple[str, ...] | None:
    """A plausible call of a command on one key; None where it has none."""
    if name in MOVING:
        return MOVING[name]
    command = name.split("|")
    if name in NUMBERED:
        return (*command, "x", "1", KEY)
    if is_moving and not first:
        return (*command, "1", KEY, *["x"] * max(0, abs(arity) - len(command) - 2))
    if not first:
        return None
    before = ["x"] * (first - len(command))
    return (*command, *before, KEY, *["x"] * max(0, abs(arity) - first - 1))


def flattened(answer: list[Any]) -> Iterator[tuple[str, int, int, bool]]:
    """Name, arity, place of the first key, and whether keys move, of every command and subcommand."""
    for entry in answer:
        subcommands = entry[9] if len(entry) > 9 else []
        if subcommands:
            yield from flattened(subcommands)
        else:
            yield entry[0].decode(), entry[1], entry[3], b"movablekeys" in entry[2]


def is_allowed(role: Role, name: str, kind: str) -> bool:
    """What the table says."""
    if role == "deploy":
        return name in DEPLOY
    if role != "publisher":
        mine = kind not in ("another namespace", "not ours")
        return mine and name in (OPERATOR if role == "operator" else RUNTIME)
    if kind == "":
        return name == "fcall"
    patterns = {kind, "blob:*"} if kind == "blob:*:reply" else {kind}
    return any(name in PUBLISHER_ON.get(pattern, ()) for pattern in patterns)


@pytest.mark.parametrize("role", ROLES)
async def test_every_command_on_every_key(server: ServerProcess, admin: RedisTransport, role: Role) -> None:
    one = BlockingWire(Endpoint.parse(server.url), 60)
    one.call(("FUNCTION", "LOAD", "#!lua name=f\nredis.register_function('f', function() return 1 end)"))
    wrong, seen = [], 0
    for name, arity, first, is_moving in flattened(one.call(("COMMAND",))):
        words = words_of(name, arity, first, is_moving)
        for key, kind in KEYS.items() if words else ():
            assert words is not None
            said = one.call(("ACL", "DRYRUN", role, *(key if word == KEY else word for word in words)))
            seen += 1
            if (said == b"OK") is not is_allowed(role, name, kind):
                wrong.append((name, kind, said))
    one.close()
    assert wrong == []
    assert seen > 150 * len(KEYS)


FUNCTIONS_OF_A_PUBLISHER = {"publish", "declare", "control"}


async def test_a_publisher_gets_nothing_done_by_any_other_function(
    server: ServerProcess, admin: RedisTransport
) -> None:
    await _a_full_namespace(server)
    user = RedisTransport(url_of(server, "publisher"), BrokerSettings(namespace=NAMESPACE))
    before = await _everything(admin)
    for name in set(OPERATIONS) - FUNCTIONS_OF_A_PUBLISHER:
        for arguments in (ATTACKS.get(name, ()), ("counter", "topic", "notes"), ("1", "1", "1", "1", "1")):
            try:
                answer = await user.admin.run(name, arguments)
            except CommandError:
                continue
            assert not _tells(answer), (name, answer)
    for order in (
        ("pause", "type", "counter", "x"),
        ("resume", "type", "counter", "x"),
        ("reset", "counter", "a", "x", ""),
    ):
        with pytest.raises(CommandError):
            await user.order(*order)
    with pytest.raises(CommandError, match="start a worker of this version first"):
        await user.declare({"counter": {"max_attempts": 99}}, ())
    await user.close()
    assert await _everything(admin) == before


# What would do most harm, were it carried out.
ATTACKS: dict[str, tuple[str | int, ...]] = {
    "unsubscribe": ("counter", "topic", "notes"),
    "leave": ("1", "", ""),
    "measure": ("", "topic:notes", "inbox:counter"),
    "replay": ("counter", "discard", "0-1", ""),
    "record": ("counter", "m", "n", "forged", 1000),
    "join": ("evil:1", 60_000, "counter", "evil", 1, ""),
}


def _tells(answer: object) -> bool:
    """Whether an answer shows a message, or says that something was done."""
    return b"secret" in repr(answer).encode() or answer in (b"OK", 1)


async def _a_full_namespace(server: ServerProcess) -> None:
    """With something in every place, and no worker."""
    settings = BrokerSettings(namespace=NAMESPACE, retry_base=0.01, retry_cap=0.02)
    async with RedisAgentRuntime.from_app(app, url_of(server, "worker"), settings=settings) as worker:
        worker.start()
        await worker.publish_message(Note(text="fail"), TopicId("notes", "a"))
        await worker.publish_message(Note(text="one"), TopicId("notes", "b"))
        await worker.stop_when_idle()
        await worker.publish_message(Note(text="secret"), TopicId("notes", "a"))
        await worker.publish_message(Note(text="secret"), TopicId("notes", "a"), delay=3600)


async def _everything(admin: RedisTransport) -> dict[str, bytes]:
    """Without idempotency ids: to use one up is what publishing does."""
    names = sorted(await admin.names_after(admin.keys.prefix))
    names = [name for name in names if not name.startswith("dedupe")]
    return {name: await admin.admin.command("DUMP", admin.keys.of(name)) for name in names}


# What it needs, and no more


class Unheard(BaseModel):
    """A message that only the publisher knows."""


class Recording:
    """What the server runs, also inside functions, while nobody but the publisher uses it."""

    def __init__(self, server: ServerProcess, admin: RedisTransport) -> None:
        self._port, self._admin, self._prefix = server.port, admin.admin, admin.keys.prefix.encode()
        self.used: set[tuple[str, str]] = set()

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writer.write(b"MONITOR\r\n")
        assert await self._reader.readline() == b"+OK\r\n"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._admin.command("TYPE", "the end")
        while b'"the end"' not in (line := await self._reader.readline()):
            self._note(re.findall(rb'"((?:[^"\\]|\\.)*)"', line))
        self._writer.close()

    def _note(self, words: list[bytes]) -> None:
        suffix = next((word[len(self._prefix) :] for word in words[1:] if word.startswith(self._prefix)), b"")
        name = words[0].decode().lower()
        if name in ("xgroup", "xinfo"):
            name += f"|{words[1].decode().lower()}"
        is_reply = suffix.startswith(b"blob:") and suffix.endswith(b":reply")
        kind = kind_of(suffix.decode(errors="replace"))
        glob = "blob:*:reply" if is_reply else kind.glob if kind is not None else ""
        self.used.add((glob, name))


async def _until_full(send: Callable[[], Awaitable[object]]) -> None:
    for _ in range(200):
        try:
            await send()
        except RequestTimeoutError:
            continue
        except OverloadedError:
            return
    raise AssertionError("it is never full")


async def _all_that_a_publisher_does(publisher: RedisAgentRuntime) -> None:
    topic, counter = TopicId("notes", "a"), AgentId("counter", "a")
    await publisher.publish_message(Note(text="x"), topic)
    await publisher.publish_message(Note(text="x"), TopicId("new.one", "a"))
    await publisher.publish_message(Note(text="x"), TopicId("lonely", "a"))
    for topic_type in ("lonely", "lonelier"):
        with pytest.raises(UnheardError, match="nothing subscribes"):
            await publisher.publish_message(Note(text="x"), TopicId(topic_type, "a"), strict=True)
    await publisher.publish_message(Note(text="x"), topic, delay=3600)
    await publisher.remind(Note(text="x"), counter, after=3600)
    await publisher.publish_message(Note(text="x"), topic, claim_check=True)
    ids = (f"n{number}" for number in itertools.count())
    await _until_full(lambda: publisher.publish_message(Note(text="x"), topic, message_id=next(ids)))
    await _until_full(lambda: publisher.send_message(Count(total=0), counter, timeout=0.01))
    assert await publisher.send_message(Count(total=0), counter, message_id="asked before")
    await publisher.transport.claims.drop(claims.Pointer("blob:1:reply", 1))  # as after a reply without an id
    token = CancellationToken()
    asking = asyncio.create_task(
        publisher.send_message(Count(total=0), AgentId("quiet", "a"), cancellation_token=token)
    )
    await eventually(lambda: publisher.transport.in_flight)
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_a_publisher_has_the_rights_that_it_uses_and_no_others(
    server: ServerProcess, admin: RedisTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "TRIM_AFTER", 1)
    usual = BrokerSettings(namespace=NAMESPACE, claim_check=True, max_payload=1000)
    async with RedisAgentRuntime.from_app(app, url_of(server, "worker"), settings=usual) as worker:
        worker.start()
        await worker.send_message(Count(total=5000), AgentId("counter", "a"), message_id="asked before")
    # A longer window than the worker's, so that ids have to stay longer than it asked for.
    longer = 3 * usual.dedupe_window
    limited = replace(usual, max_backlog=5, max_backlog_per_key=5, when_full="reject", dedupe_window=longer)
    publisher = RedisAgentRuntime.from_app(app, url_of(server, "publisher"), settings=limited, types=())
    publisher.add_message_types([Unheard])
    async with Recording(server, admin) as recording, publisher:
        await _all_that_a_publisher_does(publisher)
    given = {(pattern, name) for pattern, names in PUBLISHER_ON.items() for name in names}
    used = {(pattern, name) for pattern, name in recording.used if pattern}
    assert given - used == set(), "these rights are in the catalogue, and nothing needs them"
    assert used - given == set(), "these commands ran without a right?"
