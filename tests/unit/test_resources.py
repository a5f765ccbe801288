"""Resources of a process: opened before the first message, found by class and name, closed at the end, replaced in tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import BaseModel

from callboard import AgentId, App, ClosureContext, MessageContext, RoutedAgent, resource, rpc
from callboard.errors import DeclarationError, MisuseError, SettingValueError, UnknownNameError
from callboard.testing import Harness, eventually
from callboard.tools import FunctionTool


class Order(BaseModel):
    number: int = 1


class Database:
    def __init__(self, name: str = "real") -> None:
        self.name = name
        self.is_open = False


class Ledger:
    def __init__(self, database: Database) -> None:
        self.database = database


class Recorded:
    """An app with two resources, and what happened to them."""

    def __init__(self) -> None:
        self.app = App("shop")
        self.log: list[str] = []

        @self.app.resource
        async def database() -> AsyncIterator[Database]:
            self.log.append("open database")
            made = Database()
            made.is_open = True
            try:
                yield made
            finally:
                made.is_open = False
                self.log.append("close database")

        @self.app.resource(name="book")
        @asynccontextmanager
        async def ledger() -> AsyncIterator[Ledger]:
            self.log.append("open book")
            yield Ledger(resource(Database))
            self.log.append("close book")

        @self.app.agent("clerk", topics=["orders"])
        class Clerk(RoutedAgent):
            def __init__(self) -> None:
                super().__init__("Takes orders.")
                self.database = resource(Database)

            @rpc
            async def on_order(_, message: Order, ctx: MessageContext) -> str:  # noqa: N805
                self.log.append("handle")
                await asyncio.sleep(0.01)
                book = resource("book")
                assert book.database is resource(Database) is _.database
                return f"{resource(Database).name} {resource(Database).is_open}"


CLERK = AgentId("clerk", "1")


async def test_a_handler_finds_them_by_class_and_name_and_they_close_after_it() -> None:
    shop = Recorded()
    async with Harness() as harness:
        runtime = await harness.run(shop.app)
        assert shop.log == ["open database", "open book"]

        asked = asyncio.create_task(runtime.send_message(Order(), CLERK))
        await eventually(lambda: "handle" in shop.log)
        await runtime.stop()

        assert await asked == "real True"
    assert shop.log == ["open database", "open book", "handle", "close book", "close database"]


async def test_they_are_opened_anew_where_the_runtime_starts_anew() -> None:
    shop = Recorded()
    async with Harness() as harness:
        runtime = await harness.run(shop.app)
        await runtime.stop()
        runtime.start()
        await runtime.ready()
        assert await runtime.send_message(Order(), CLERK) == "real True"

    assert shop.log.count("open database") == shop.log.count("close database") == 2


@pytest.mark.parametrize("wanted", ["database", Database], ids=["name", "class"])
async def test_a_test_replaces_one_which_is_neither_opened_nor_closed(wanted: str | type[Any]) -> None:
    shop = Recorded()
    async with Harness() as harness:
        runtime = await harness.run(shop.app, resources={wanted: Database("fake")})

        assert await runtime.send_message(Order(), CLERK) == "fake False"
    assert shop.log == ["open book", "handle", "close book"]


async def test_an_object_of_another_class_stands_for_one_by_its_name() -> None:
    class Fake:
        name, is_open = "fake", "stub"

    shop = Recorded()
    async with shop.app.running("memory://resources-fake", resources={"database": Fake()}) as runtime:
        assert await runtime.send_message(Order(), CLERK) == "fake stub"


async def test_a_tool_finds_them_also_in_a_thread() -> None:
    app = App("tools")

    @app.resource
    async def database() -> AsyncIterator[Database]:
        yield Database("tools")

    def plain(number: int) -> str:
        """Looks up an order."""
        return f"{number} in {resource(Database).name}"

    @app.closure("asker", topics=["orders"])
    async def asker(agent: ClosureContext, message: Order, ctx: MessageContext) -> str:
        return str(await FunctionTool(plain, "Looks up.").run_json({"number": 7}, ctx.cancellation_token))

    async with Harness() as harness:
        runtime = await harness.run(app)

        assert await runtime.send_message(Order(), AgentId("asker", "1")) == "7 in tools"


async def test_a_process_of_other_types_and_one_that_only_sends_open_none() -> None:
    opened: list[str] = []
    app = App("two")

    @app.resource(types=["clerk"])
    async def database() -> AsyncIterator[Database]:
        opened.append("clerk")
        yield Database()

    @app.closure("clerk")
    async def clerk(agent: ClosureContext, message: Order, ctx: MessageContext) -> str:
        return resource(Database).name

    @app.closure("guard")
    async def guard(agent: ClosureContext, message: Order, ctx: MessageContext) -> str:
        return str(message.number)

    async with Harness() as harness:
        sending = await harness.run(app, types=())
        await harness.run(app, types=["guard"])
        assert await sending.send_message(Order(), AgentId("guard", "1")) == "1"
        assert opened == []

        await harness.run(app, types=["clerk"])
        assert await sending.send_message(Order(), AgentId("clerk", "1")) == "real"
    assert opened == ["clerk"]


async def test_one_that_cannot_be_opened_ends_the_start_and_what_was_open_is_closed() -> None:
    shop = Recorded()

    @shop.app.resource
    async def broken() -> AsyncIterator[int]:
        raise OSError("no such host")
        yield 1

    with pytest.raises(OSError, match="no such host") as caught:
        async with shop.app.running("memory://resources-broken"):
            pytest.fail("it started")

    assert caught.value.__notes__ == ["raised while the resource 'broken' was opened"]
    assert shop.log == ["open database", "open book", "close database"]


async def test_a_start_that_is_cancelled_while_one_opens_closes_the_others() -> None:
    shop, reached = Recorded(), asyncio.Event()

    @shop.app.resource
    async def slow() -> AsyncIterator[int]:
        reached.set()
        await asyncio.Event().wait()
        yield 1

    async with Harness() as harness:
        starting = asyncio.create_task(harness.run(shop.app))
        await reached.wait()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    assert "close database" in shop.log


async def test_what_closing_raises_is_raised_where_the_work_is_stopped() -> None:
    app = App("leaky")

    @app.resource
    async def leaky() -> AsyncIterator[int]:
        yield 1
        raise OSError("not flushed")

    @app.closure("clerk")
    async def clerk(agent: ClosureContext, message: Order, ctx: MessageContext) -> int:
        return resource(int)

    async with Harness() as harness:
        runtime = await harness.run(app)
        assert await runtime.send_message(Order(), AgentId("clerk", "1")) == 1
        with pytest.raises(OSError, match="not flushed"):
            await runtime.stop()


async def test_an_unknown_one_is_named_with_those_that_are_there() -> None:
    app = Recorded().app

    @app.closure("asker")
    async def asker(agent: ClosureContext, message: Order, ctx: MessageContext) -> list[str]:
        said: list[str] = []
        for wanted in ("datbase", App):
            with pytest.raises(UnknownNameError) as caught:
                resource(wanted)
            said.append(str(caught.value))
        return said

    async with Harness() as harness:
        runtime = await harness.run(app)
        by_name, by_class = await runtime.send_message(Order(), AgentId("asker", "1"))

    assert by_name == "There is no resource 'datbase'. Did you mean 'database'?"
    assert "no resource of class 'App'" in by_class
    assert "database (Database)" in by_class


async def test_two_of_one_class_are_asked_for_by_name() -> None:
    app = App("pair")
    for name in ("first", "second"):

        @app.resource(name=name)
        async def database(name: str = name) -> AsyncIterator[Database]:
            yield Database(name)

    @app.closure("asker")
    async def asker(agent: ClosureContext, message: Order, ctx: MessageContext) -> str:
        with pytest.raises(MisuseError, match="'first', 'second' by name"):
            resource(Database)
        return str(resource("second").name)

    async with Harness() as harness:
        runtime = await harness.run(app)
        assert await runtime.send_message(Order(), AgentId("asker", "1")) == "second"


def test_outside_of_a_worker_there_are_none() -> None:
    with pytest.raises(MisuseError, match=r"resource\(Database\) was called where no resources are open"):
        resource(Database)


async def test_what_replaces_nothing_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="no resource 'datbase'"):
        async with Recorded().app.running("memory://resources-none", resources={"datbase": Database()}):
            pytest.fail("it started")


def test_a_name_is_taken_once() -> None:
    with pytest.raises(SettingValueError, match="a name that no other resource has"):

        @Recorded().app.resource
        async def database() -> AsyncIterator[int]:
            yield 1


async def _a_coroutine() -> int:
    return 1


async def _with_argument(url: str) -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("wrong", [_a_coroutine, _with_argument, 7])
def test_what_cannot_open_anything_is_refused_where_it_is_declared(wrong: Any) -> None:
    with pytest.raises(DeclarationError, match="can't be a resource"):
        App("wrong").resource(wrong)
