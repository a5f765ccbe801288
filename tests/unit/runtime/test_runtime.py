"""What a runtime decides without a server: where it connects, which namespace, what it refuses."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from callboard import (
    AgentId,
    AgentRuntime,
    App,
    BrokerSettings,
    ClosureContext,
    MessageContext,
    RedisAgentRuntime,
    RoutedAgent,
    Subscription,
    TopicId,
    TypeSubscription,
)
from callboard.broker.errors import SettingsError
from callboard.broker.redis.client.transport import RedisTransport
from callboard.errors import MisuseError, UnknownNameError
from tests.helpers.runtimes import Answer, Ask, Note, closure, listener

Make = Callable[..., RedisAgentRuntime]


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("CALLBOARD_URL", "REDIS_URL", "CALLBOARD_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    return f"memory://unit-{os.urandom(4).hex()}"


@pytest.fixture
async def make() -> AsyncIterator[Make]:
    """Makes runtimes and closes them."""
    made: list[RedisAgentRuntime] = []

    def runtime(*args: object, **options: object) -> RedisAgentRuntime:
        made.append(RedisAgentRuntime(*args, **options))  # type: ignore[arg-type]
        return made[-1]

    yield runtime
    for one in made:
        await one.close()


def test_it_is_an_agent_runtime() -> None:
    assert isinstance(RedisAgentRuntime("memory://x"), AgentRuntime)


async def test_where_it_connects(url: str, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", f"{url}-redis")
    runtime = make()
    await runtime.open()
    assert runtime.transport.endpoint.host == f"{url}-redis".removeprefix("memory://")
    monkeypatch.setenv("CALLBOARD_URL", f"{url}-callboard")
    runtime = make()
    await runtime.open()
    assert runtime.transport.endpoint.host.endswith("-callboard")
    runtime = make(url)
    await runtime.open()
    assert runtime.transport.endpoint.host == url.removeprefix("memory://")
    runtime = make(settings=BrokerSettings(url=f"{url}-settings"))
    await runtime.open()
    assert runtime.transport.endpoint.host.endswith("-settings")


async def test_which_namespace(url: str, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    async def namespace(**options: object) -> str:
        runtime = make(url, **options)
        await runtime.open()
        return str(runtime.settings.namespace)

    first, second = await namespace(), await namespace()
    assert first.startswith(f"run-{os.getpid()}-")
    assert first != second
    assert await namespace(namespace="mine") == "mine"
    assert await namespace(settings=BrokerSettings(namespace="theirs")) == "theirs"
    assert await namespace(settings=BrokerSettings(namespace="theirs"), namespace="mine") == "mine"
    monkeypatch.setenv("CALLBOARD_NAMESPACE", "environment")
    assert await namespace() == "environment"


NAMED = {
    "argument": ({"namespace": "main"}, None),
    "settings": ({"settings": BrokerSettings(namespace="main")}, None),
    "settings with more": ({"settings": replace(BrokerSettings(namespace="main"), lease=9.0)}, None),
    "environment": ({}, "main"),
    "environment beside settings": ({"settings": BrokerSettings(lease=9.0)}, "main"),
    "argument before settings": ({"namespace": "main", "settings": BrokerSettings(namespace="x")}, None),
    "argument before environment": ({"namespace": "main"}, "other"),
    "settings before environment": ({"settings": BrokerSettings(namespace="main")}, "other"),
}


@pytest.mark.parametrize("how", NAMED)
async def test_a_namespace_that_was_named_is_used_and_stays(
    url: str, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    options, environment = NAMED[how]
    if environment is not None:
        monkeypatch.setenv("CALLBOARD_NAMESPACE", environment)
    runtime = RedisAgentRuntime(url, **options)  # type: ignore[arg-type]
    async with runtime:
        assert runtime.transport.keys.namespace == runtime.settings.namespace == "main"
    looking = RedisTransport(url, BrokerSettings(namespace="main"))
    assert await looking.names_after("callboard:{main}:"), "close has deleted it"
    await looking.close()


async def test_a_namespace_that_was_made_up_goes(url: str) -> None:
    runtime = RedisAgentRuntime(url, settings=BrokerSettings(lease=9.0))
    async with runtime:
        assert str(runtime.settings.namespace).startswith("run-")
    looking = RedisTransport(url, BrokerSettings(namespace="x"))
    assert await looking.names_after("callboard:") == []
    await looking.close()


async def test_a_server_in_the_environment_counts_beside_settings(
    url: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALLBOARD_URL", url)
    runtime = make(settings=BrokerSettings(lease=9.0))
    await runtime.open()
    assert runtime.transport.endpoint.host == url.removeprefix("memory://")


@pytest.mark.parametrize("wrong", ["redis//localhost", "http://localhost", "redis://localhost:port"])
async def test_a_url_with_a_mistake(url: str, make: Make, wrong: str) -> None:
    with pytest.raises(SettingsError, match="the server URL"):
        await make(wrong).open()


async def test_a_namespace_that_can_not_be(url: str, make: Make) -> None:
    with pytest.raises(SettingsError, match="namespace"):
        await make(url, namespace="a {b}").open()


async def test_opening_at_once_makes_one_connection(url: str, make: Make) -> None:
    runtime = make(url)
    await asyncio.gather(*(runtime.open() for _ in range(5)))
    transport = runtime.transport
    await runtime.open()
    assert runtime.transport is transport


async def test_it_opens_with_its_first_use(url: str, make: Make) -> None:
    runtime = make(url)
    with pytest.raises(MisuseError, match="await open"):
        _ = runtime.settings
    await runtime.publish_message(Note(), TopicId("news", "a"))
    assert runtime.settings.request_timeout == 30


async def test_registering_alone_connects_to_nothing(make: Make) -> None:
    runtime = make("unix:///nowhere.sock")
    await listener(runtime, "listener", "news")
    await runtime.get("listener", lazy=False)
    with pytest.raises(MisuseError):
        _ = runtime.transport


async def test_a_subscription_of_ones_own_kind_can_not_cross_processes(url: str, make: Make) -> None:
    class Mine:
        """Matches by a rule of its own."""

        id = "mine"
        agent_type = "listener"

        def is_match(self, topic_id: TopicId) -> bool:
            return True

        def map_to_agent(self, topic_id: TopicId) -> AgentId:
            return AgentId("listener", "a")

    runtime = make(url)
    subscription: Subscription = Mine()
    with pytest.raises(TypeError, match="can't cross processes"):
        await runtime.add_subscription(subscription)
    await runtime.add_subscription(TypeSubscription("news", "listener"))


async def test_the_same_class_name_twice_is_refused(url: str, make: Make) -> None:
    runtime = make(url)
    runtime.add_message_types([Ask, Ask])
    runtime.add_message_serializer([Answer])

    class Other(Ask):
        """Another class of the same name."""

    Other.__name__ = "Ask"
    with pytest.raises(ValueError, match="Ask"):
        runtime.add_message_types([Other])


# Apps


def _app() -> App:
    app = App("unit-app", settings=BrokerSettings(request_timeout=3))

    @app.closure("first", topics=["news"])
    async def first(agent: ClosureContext, message: Note, ctx: MessageContext) -> None: ...

    @app.agent("second", prefixes=["order."], max_attempts=9, concurrency=2)
    class Second(RoutedAgent):
        """Does nothing."""

    return app


async def test_an_app_is_declared_as_a_whole_also_by_who_runs_nothing(url: str) -> None:
    runtime = RedisAgentRuntime.from_app(_app(), url, types=())
    async with runtime:
        assert runtime.settings.namespace == "unit-app"
        assert runtime.settings.request_timeout == 3
        transport = runtime.transport
        types = await transport.admin.command("HGETALL", transport.keys.of("types"))
        assert types[::2] == [b"first", b"second"]
        assert b'"max_attempts": 9' in types[3]
        topics = await transport.admin.command("HGETALL", transport.keys.of("topics"))
        assert dict(zip(topics[::2], topics[1::2], strict=True))[b"news"] == b"first"
        runtime.start()
        await runtime.ready()
        assert runtime.worker.count(":") == 3
        with pytest.raises(ValueError, match="first"):
            await runtime.register_factory("first", RoutedAgent)


async def test_a_type_that_the_app_does_not_have(url: str) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'second'"):
        RedisAgentRuntime.from_app(_app(), url, types=["secnd"])


async def test_which_namespace_of_an_app(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def namespace(app: App, **options: object) -> str | None:
        async with RedisAgentRuntime.from_app(app, url, **options) as runtime:  # type: ignore[arg-type]
            return runtime.settings.namespace

    main, staging = BrokerSettings(namespace="main"), BrokerSettings(namespace="staging")
    assert await namespace(App("shop")) == "shop"
    assert await namespace(App("shop"), settings=main) == "main"
    assert await namespace(App("shop", namespace="mine"), settings=staging) == "staging"
    assert await namespace(App("shop", settings=main)) == "main"
    assert await namespace(App("shop"), settings=staging, namespace="main") == "main"
    monkeypatch.setenv("CALLBOARD_NAMESPACE", "main")
    assert await namespace(App("shop")) == "main"
    assert await namespace(App("shop", settings=BrokerSettings(lease=9.0))) == "main"
    assert await namespace(App("shop", namespace="mine")) == "mine"
    assert await namespace(App("shop"), settings=staging) == "staging"


async def test_two_apps_need_not_meet(url: str) -> None:
    first = RedisAgentRuntime.from_app(_app(), url, namespace="one", settings=BrokerSettings())
    async with first:
        assert first.settings.namespace == "one"
        assert first.settings.request_timeout == 30


def test_memory_works_in_a_new_event_loop_after_one_ended_with_a_runtime_open() -> None:
    url, left = f"memory://loops-{os.urandom(4).hex()}", []

    async def answer(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        return Answer()

    async def ask_and_leave() -> object:
        runtime = RedisAgentRuntime(url, namespace="loops")
        left.append(runtime)
        await closure(runtime, "answering", answer)
        runtime.start()
        await runtime.ready()
        return await runtime.send_message(Ask(), AgentId("answering", "a"), timeout=60)

    for _ in range(3):
        with asyncio.Runner() as runner:
            assert runner.run(ask_and_leave()) == Answer()
