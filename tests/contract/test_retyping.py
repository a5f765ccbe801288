"""Agent types are renamed and removed with all that waits, however often that is interrupted."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from pydantic import BaseModel

from callboard import AgentId, App, MessageContext, RedisAgentRuntime, RoutedAgent, TopicId, event
from callboard.broker.envelope import Claim
from callboard.broker.errors import BrokerError, CommandError, DeadLetterError, UndeliverableError
from callboard.broker.outcome import Retry
from callboard.broker.redis.client.transport import Declared
from callboard.broker.redis.operations.doctor import examine
from callboard.broker.redis.operations.repair import find, repair
from callboard.broker.redis.operations.retyping import TypeChangeError, remove_type, rename_type
from callboard.errors import UndeliverableException
from tests.helpers.asking import AskingFixture
from tests.helpers.commits import as_done
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Note, Runtimes, listener
from tests.helpers.server_driver import DrivenWorker, ServerDriver, bodies, plain, posting, topic


async def at_rest(driver: ServerDriver) -> None:
    """`old` was stopped with something of everything: handled, parked, read ahead, unread, tried, delayed, large."""
    await driver.declare(topic("old", "mails"), topic("old", "visits"), topic("other", "visits"))
    worker = await driver.worker("old")
    await driver.note("topic:mails", "ada", "handled")
    (first,) = await worker.take()
    await worker.finish(first)
    await driver.note("topic:mails", "ada", "a1")
    await driver.note("inbox:old", "ada", "a2")
    await driver.note("topic:visits", "ada", "a3")
    await driver.note("inbox:old", "bob", "b1")
    await driver.note("topic:visits", "bob", "b2")
    await worker.take()
    await driver.run("leave", "0", "1", worker.name)
    await driver.note("topic:mails", "bob", "b3")
    await driver.note("inbox:old", "ada", "a4")
    await driver.publish(posting("inbox:old", "eve", "e1", due=60_000))
    await driver.transport.save_state("old", "ada", b"state of ada", {"lines": [b"1", b"2"]})
    await driver.run("control", "reset", "old", "bob", "r1", "")


async def all_of(driver: ServerDriver, agent_type: str) -> dict[str, list[str]]:
    """Everything that a new worker of a type handles, by agent."""
    worker = await driver.worker(agent_type)
    seen: dict[str, list[str]] = {}
    for _ in range(100):
        deliveries = await worker.take()
        if not deliveries and not worker.held:
            break
        for one in deliveries:
            seen.setdefault(one.raw_key.decode(), []).append(one.envelope.body.decode())
        await worker.finish_all()
    return seen


EXPECTED = {"ada": ["a1", "a2", "a3", "a4"], "bob": ["", "b1", "b2", "b3"], "eve": ["e1"]}


async def fire(driver: ServerDriver) -> None:
    (timer,) = await driver.command("ZRANGE", "timers", 0, -1)
    await driver.command("ZADD", "timers", 1, timer)


async def check_renamed(driver: ServerDriver) -> None:
    await fire(driver)
    assert await find(driver.transport) == ()
    assert await all_of(driver, "new") == EXPECTED
    await driver.check_empty("new")
    stored = await driver.transport.load_state("new", "ada")
    assert (stored.data, stored.logs) == (b"state of ada", {"lines": [b"1", b"2"]})
    left = {name for name in await driver.snapshot() if "old" in name}
    assert not left
    assert not [name for name in await driver.mapping("config") if "old" in name or name == "changing"]
    assert set(await driver.mapping("types")) == {"new", "other"}
    assert (await driver.mapping("topics"))["visits"] == "new other"


async def test_everything_goes_on_under_the_new_name(driver: ServerDriver) -> None:
    await at_rest(driver)
    assert not (await rename_type(driver.transport, "old", "new")).resumed
    await check_renamed(driver)


async def test_a_publisher_that_declared_the_new_name_already_is_no_hindrance(driver: ServerDriver) -> None:
    await at_rest(driver)
    await driver.declare(topic("new", "mails"), topic("new", "visits"), topic("new", "more"))
    await driver.note("topic:visits", "ada", "a5")
    await driver.note("topic:more", "ada", "a6")
    await rename_type(driver.transport, "old", "new")
    await fire(driver)
    seen = await all_of(driver, "new")
    assert seen == {**EXPECTED, "ada": [*EXPECTED["ada"], "a5", "a6"]}


class CutError(Exception):
    """The command was killed here."""


def cut_after(monkeypatch: pytest.MonkeyPatch, driver: ServerDriver, calls: int) -> list[int]:
    """Only so many calls of the change reach the server."""
    link, made = driver.transport.admin, [0]
    run = link.run

    async def counted(operation: str, arguments: Any) -> Any:
        if operation == "retype":
            made[0] += 1
            if made[0] > calls:
                raise CutError
        return await run(operation, arguments)

    monkeypatch.setattr(link, "run", counted)
    return made


async def test_it_may_be_interrupted_anywhere(driver: ServerDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    await at_rest(driver)
    cuts = 0
    for calls in range(1, 60):
        with monkeypatch.context() as patched:
            cut_after(patched, driver, calls)
            try:
                await rename_type(driver.transport, "old", "new")
                break
            except CutError:
                cuts += 1
        for name in ("old", "new"):
            with pytest.raises(
                CommandError, match=r"is being renamed to new.*callboard types rename old new"
            ):
                await driver.run("join", "host:1:a", 1000, name, "host", 1, "", 0)
            with pytest.raises(CommandError, match="is being renamed"):
                await driver.declare(topic(name, "mails"))
        with pytest.raises(BrokerError, match="is being renamed"):
            await find(driver.transport)
    assert cuts > 4
    await check_renamed(driver)


async def test_what_is_published_between_all_steps_keeps_its_place(
    driver: ServerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await at_rest(driver)
    await driver.declare(Declared("old", "prefix", "order."))
    run, sent, told = driver.transport.admin.run, list[str](), list[str]()

    async def with_others(operation: str, arguments: Any) -> Any:
        answer = await run(operation, arguments)
        if operation == "retype":
            number = len(sent)
            sent.extend(f"{number + each}" for each in range(3))
            await driver.note("topic:mails", "zoe", sent[-3])
            await driver.note(f"topic:order.{number}", "zoe", sent[-2])  # nobody knew the topic before
            await driver.note("topic:visits", "zoe", sent[-1])
            for name in ("old", "new"):
                with contextlib.suppress(UndeliverableError):
                    await driver.note(f"inbox:{name}", "tom", f"{number} {name}")
                    told.append(f"{number} {name}")
        return answer

    monkeypatch.setattr(driver.transport.admin, "run", with_others)
    await rename_type(driver.transport, "old", "new")
    monkeypatch.undo()
    await fire(driver)
    assert await find(driver.transport) == ()
    assert await all_of(driver, "new") == {**EXPECTED, "zoe": sent, "tom": told}
    assert len(sent) > 30
    assert len(told) == len(sent) // 3


async def test_what_is_in_use_is_refused_and_nothing_changes(driver: ServerDriver) -> None:
    await at_rest(driver)
    await driver.declare(types=["new", "used"])
    user = await driver.worker("used")
    await driver.note("inbox:used", "a", "1")
    await user.take()
    before = await driver.snapshot()

    async def refused(why: str, old: str, new: str) -> None:
        with pytest.raises(TypeChangeError, match=why):
            await rename_type(driver.transport, old, new)
        assert await driver.snapshot() == before

    await refused("no such type", "nobody", "somebody")
    await refused("its name already", "old", "old")
    await refused("has it: stop that first", "old", "used")
    await refused("has it: stop that first", "used", "else")
    with pytest.raises(TypeChangeError, match="has it: stop that first"):
        await remove_type(driver.transport, "used")
    await user.finish_all()
    await driver.run("leave", "0", "1", user.name)
    before = await driver.snapshot()
    await refused("was used, there is stats:used", "old", "used")
    with pytest.raises(BrokerError, match="not a valid"):
        await rename_type(driver.transport, "old", "a b;")
    await driver.transport.save_state("new", "ada", b"{}")
    before = await driver.snapshot()
    await refused("was used, there is state:new:ada", "old", "new")


async def test_back_again(driver: ServerDriver) -> None:
    await at_rest(driver)
    await rename_type(driver.transport, "old", "new")
    await rename_type(driver.transport, "new", "old")
    await fire(driver)
    assert await find(driver.transport) == ()
    assert await all_of(driver, "old") == EXPECTED


async def test_what_was_sent_to_the_old_name_since_goes_on(driver: ServerDriver) -> None:
    await at_rest(driver)
    await rename_type(driver.transport, "old", "new")
    await driver.add_by_hand("inbox:old", "id", "late", "type", "Note", "key", "ada", "body", "late")
    assert (await rename_type(driver.transport, "old", "new")).forwarded == 1
    assert (await rename_type(driver.transport, "old", "new")).forwarded == 0
    await fire(driver)
    assert (await all_of(driver, "new"))["ada"] == [*EXPECTED["ada"], "late"]
    assert await driver.command("EXISTS", "inbox:old") == 0


@pytest.mark.parametrize("waiting", ["discard", "dead"])
async def test_a_removed_type_leaves_nothing_behind(
    driver: ServerDriver, monkeypatch: pytest.MonkeyPatch, waiting: Any
) -> None:
    await at_rest(driver)
    await driver.transport.declare({"old": {}}, [Declared("old", "prefix", "order.")])
    for calls in range(1, 60):
        with monkeypatch.context() as patched:
            cut_after(patched, driver, calls)
            try:
                await remove_type(driver.transport, "old", waiting)
                break
            except CutError:
                continue
    assert await find(driver.transport) == ()
    left = {name for name in await driver.snapshot() if "old" in name}
    letters = await driver.letters("old")
    if waiting == "dead":
        assert left == {"dead:old"}
        assert {one["reason"] for one in letters} == {b"removed"}
        assert sorted(one["body"].decode() for one in letters) == ["a1", "a2", "a3", "a4", "b1", "b2", "b3"]
    else:
        assert left == set()
    assert await driver.command("ZCARD", "timers") == 0
    assert "old" not in " ".join((await driver.mapping("topics")).values())
    assert set(await driver.mapping("types")) == {"other"}
    assert await driver.mapping("prefixes") in ({"order.": ""}, {})
    await driver.note("topic:visits", "ada", "on")
    assert (await all_of(driver, "other"))["ada"] == ["a3", "on"]


async def test_an_interrupted_removal_goes_on_as_it_began(
    driver: ServerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await at_rest(driver)
    with monkeypatch.context() as patched:
        cut_after(patched, driver, 2)
        with pytest.raises(CutError):
            await remove_type(driver.transport, "old", "dead")
    assert await remove_type(driver.transport, "old", "discard"), "it went on"
    assert len(await driver.letters("old")) == 7


@pytest.mark.real_server("memory:// can't tell what doctor asks of a server")
@pytest.mark.parametrize("kind", ["rename", "remove"])
async def test_the_doctor_says_how_an_interrupted_change_goes_on(
    driver: ServerDriver, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    await at_rest(driver)
    with monkeypatch.context() as patched:
        cut_after(patched, driver, 2)
        with pytest.raises(CutError):
            await (
                rename_type(driver.transport, "old", "new")
                if kind == "rename"
                else remove_type(driver.transport, "old", "dead")
            )
    report = await examine(driver.transport, frozenset({"new"}))
    (found,) = [one for one in report.findings if one.check == "types"]
    words = "rename old new" if kind == "rename" else "remove old --yes"
    assert f"callboard types {words} --namespace {driver.transport.keys.namespace}" in found.do
    assert not [one for one in report.findings if "could not be checked" in one.what]


async def test_streams_are_trimmed_once_a_type_is_gone(driver: ServerDriver) -> None:
    await driver.declare(topic("old", "visits"), topic("other", "visits"))
    await driver.note("topic:visits", "ada", *(str(number) for number in range(300)))
    worker: DrivenWorker = await driver.worker("other")
    for _ in range(100):
        if not await worker.take(50):
            break
        await worker.finish_all()
    await worker.beat(retain=0)
    assert await driver.command("XLEN", "topic:visits") == 300, "old has read nothing"
    await remove_type(driver.transport, "old")
    await driver.command("SADD", "grown", "topic:visits")
    await worker.beat(retain=0)
    assert await driver.command("XLEN", "topic:visits") < 300
    assert bodies(await worker.take()) == []


async def test_large_bodies_go_with_the_type(driver: ServerDriver) -> None:
    await driver.declare(types=["old"])
    claim = Claim("blob:big", b"x" * 500)
    await driver.publish(posting("inbox:old", "ada", claim.pointer, claim=claim))
    await rename_type(driver.transport, "old", "new")
    worker = await driver.worker("new")
    await driver.command("ZADD", "blobs", 1, claim.name)
    await worker.beat()  # looks whether anybody needs it
    assert await driver.command("HGET", claim.name, "body") == claim.body
    await worker.take()
    await worker.finish_all()
    await driver.command("ZADD", "blobs", 1, claim.name)
    await worker.beat()
    assert await driver.command("EXISTS", claim.name) == 0


async def test_an_answer_wakes_who_waits_for_it_whenever_it_comes(
    driver: ServerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = await AskingFixture.begin(driver)
    asking.worker.lane.close()
    await driver.run("leave", "0", "1", asking.worker.name)
    calls = -1
    while True:
        calls += 1
        asking.worker = await driver.worker("asker")
        body = str(calls)
        await driver.note("topic:work", "a", body)
        (first,) = await asking.worker.take()
        await asking.ask(first)
        await asking.suspend(first, f"{body}-q")
        await driver.run("leave", "0", "1", asking.worker.name)
        is_cut = False
        with monkeypatch.context() as patched:
            cut_after(patched, driver, calls)
            try:
                await rename_type(driver.transport, "asker", "other", begun=True)
            except CutError:
                is_cut = True
        assert await asking.answer(f"{body}-q") is None
        await rename_type(driver.transport, "asker", "other", begun=True)
        worker = await driver.worker("other")
        (again,) = await worker.take()
        assert again.envelope.body == body.encode()
        record = f"once:other:{again.envelope.id}"
        assert await driver.mapping(record) == {"?q": f"{body}-q"}
        assert (await driver.mapping(f"input:{body}-q"))["type"] == "other"
        assert await driver.command("PTTL", f"input:{body}-q") > 86_400_000 * 365, (
            "its answer is still needed"
        )
        await worker.finish_all()
        await driver.run("leave", "0", "1", worker.name)
        await driver.check_empty("other")
        await rename_type(driver.transport, "other", "asker", begun=True)
        if not is_cut:
            break
    assert calls > 8


async def test_who_backs_off_and_what_is_paused_stays_so(driver: ServerDriver) -> None:
    await driver.declare(topic("old", "mails"))
    worker = await driver.worker("old")
    await driver.note("topic:mails", "ada", "1")
    await driver.note("topic:mails", "bob", "2")
    first, second = await worker.take()
    await worker.turn(as_done(first, Retry(60.0, "no"), True, 60.0), *plain([second], worker.held))
    await driver.run("leave", "0", "1", worker.name)
    await driver.run("control", "pause", "type", "old", "ada", "")
    await driver.run("control", "pause", "key", "old/eve", "ada", "")
    await rename_type(driver.transport, "old", "new", begun=True)
    assert set(await driver.mapping("paused")) == {"type new", "key new/eve"}
    assert await driver.command("ZRANGE", "timers", 0, -1) == [b"k|new|ada"]
    assert await find(driver.transport) == ()
    await driver.command("ZADD", "timers", 1, "k|new|ada")
    assert await all_of(driver, "new") == {}
    await driver.run("control", "resume", "type", "new", "ada")
    worker = driver.workers[-1]
    (taken,) = await worker.take()
    assert (taken.envelope.body, taken.attempt) == (b"1", 2)
    await worker.finish_all()


@pytest.mark.parametrize("waiting", ["discard", "dead"])
async def test_who_asked_a_type_that_is_removed_hears_of_it(runtimes: Runtimes, waiting: Any) -> None:
    gone = await runtimes.started()
    await listener(gone, "old", "mails")
    await gone.stop()
    runtime = await runtimes.started()
    admin, of = runtime.transport.admin, runtime.transport.keys.of
    asked = asyncio.create_task(runtime.send_message(Note(), AgentId("old", "ada")))

    async def waits() -> bool:
        return bool(await admin.command("XLEN", of("inbox:old")))

    await eventually(waits)
    await remove_type(runtime.transport, "old", waiting)
    with pytest.raises(DeadLetterError, match="removed"):
        await asked
    with pytest.raises(UndeliverableException):
        await runtime.send_message(Note(), AgentId("old", "ada"))


class Choice(BaseModel):
    text: str = ""


def chooser(agent_type: str, chosen: list[str]) -> App:
    app = App("choosing")

    @app.agent(agent_type, topics=["choices"])
    class Chooser(RoutedAgent):
        @event
        async def on_choice(self, message: Choice, ctx: MessageContext) -> None:
            await ctx.once("first", self.count)
            answer = await ctx.ask(message.text)
            chosen.append(f"{agent_type} {message.text} {answer}")

        async def count(self) -> int:
            chosen.append(f"{agent_type} begins")
            return 1

    return app


async def running(runtimes: Runtimes, app: App) -> RedisAgentRuntime:
    runtime = runtimes.of(app)
    runtime.start()
    await runtime.ready()
    return runtime


@pytest.mark.parametrize("answered", ["before", "after"])
async def test_a_handler_that_waits_for_a_person_gets_the_answer_under_its_new_name(
    runtimes: Runtimes, answered: str
) -> None:
    chosen: list[str] = []
    old = await running(runtimes, chooser("old", chosen))
    await old.publish_message(Choice(text="tea?"), TopicId("choices", "ada"))
    await eventually(old.inputs.list)
    await old.stop()
    runtime = await runtimes.started()
    (asked,) = await runtime.inputs.list()
    if answered == "before":
        await runtime.inputs.answer(asked.id, "yes")
    await rename_type(runtime.transport, "old", "new", begun=True)
    new = await running(runtimes, chooser("new", chosen))
    if answered == "after":
        assert [one.id for one in await runtime.inputs.list()] == [asked.id]
        await runtime.inputs.answer(asked.id, "yes")
    await new.stop_when_idle()
    assert chosen == ["old begins", "new tea? yes"]
    assert await runtime.inputs.list() == []


async def test_handlers_that_have_begun_are_in_the_way(runtimes: Runtimes) -> None:
    old = await running(runtimes, chooser("old", []))
    await old.publish_message(Choice(text="tea?"), TopicId("choices", "ada"))
    await eventually(old.inputs.list)
    await old.stop()
    runtime = await runtimes.started()
    with pytest.raises(
        TypeChangeError, match="1 wait for an answer, 1 were tried before and 1 have recorded steps"
    ):
        await rename_type(runtime.transport, "old", "new")
    admin, of = runtime.transport.admin, runtime.transport.keys.of
    await admin.command("DEL", of("suspended:old"), of("tries:old"))
    with pytest.raises(TypeChangeError, match="0 wait for an answer"):
        await rename_type(runtime.transport, "old", "new")
    (record,) = await admin.command("KEYS", of("once:old:*").replace("{", "[{]"))
    name = record.decode().rpartition(":")[2]
    await admin.command("XADD", of("dead:old"), "*", "id", name, "type", "Choice", "key", "ada", "body", "{}")
    await rename_type(runtime.transport, "old", "new")


ODD = "a key: with \"quotes\", ';' and \u202emarks|of direction"


async def test_odd_names_and_types_whose_names_begin_alike(driver: ServerDriver) -> None:
    kinds = ("old", "old.x-ü", "old.x-ü.more")
    await driver.declare(*(topic(kind, "mails") for kind in kinds))
    for kind in kinds:
        worker = await driver.worker(kind)
        await driver.note(f"inbox:{kind}", ODD, f"{kind} {'x' * 1_000_000}", f"{kind} 2")
        await worker.take()
        await driver.run("leave", "0", "1", worker.name)
        await driver.transport.save_state(kind, ODD, kind.encode(), {"lines": [b"1"]})
        await driver.run("control", "reset", kind, ODD, f"reset of {kind}", "")
    before = await driver.snapshot()
    await rename_type(driver.transport, "old.x-ü", "new.y")
    await rename_type(driver.transport, "new.y", "old.x-ü")
    assert {name: value for name, value in (await driver.snapshot()).items() if "state:" in name} == {
        name: value for name, value in before.items() if "state:" in name
    }
    await remove_type(driver.transport, "old")
    await rename_type(driver.transport, "old.x-ü", "new.y")
    assert await find(driver.transport) == ()
    for now, then in {"new.y": "old.x-ü", "old.x-ü.more": "old.x-ü.more"}.items():
        seen = await all_of(driver, now)
        assert [text[: len(then) + 3].rstrip("x") for text in seen[ODD]] == ["", f"{then} ", f"{then} 2"]
        assert (await driver.transport.load_state(now, ODD)).data == then.encode()
    assert (await driver.transport.load_state("old", ODD)).version == 0


async def test_a_worker_that_died_is_ended_by_a_repair_first(driver: ServerDriver) -> None:
    await driver.declare(topic("old", "mails"))
    await driver.note("topic:mails", "ada", "1")
    worker = await driver.worker("old")
    await worker.take()
    await driver.expire(worker)
    with pytest.raises(TypeChangeError, match="callboard repair --yes"):
        await rename_type(driver.transport, "old", "new")
    await repair(driver.transport)
    await rename_type(driver.transport, "old", "new")
    assert await all_of(driver, "new") == {"ada": ["1"]}
