"""Roles on the bus: seed 004's listing, and what its original gets wrong."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pydantic import BaseModel, Field

from callboard.broker import AgentId, BrokerSettings, TopicId
from callboard.broker.redis.operations.deadletters import list_letters
from callboard.broker.redis.store import RedisStore
from callboard.models import CreateResult, ModelSettings, Price, ReplayChatCompletionClient, RequestUsage
from callboard.roles import (
    MESSAGE_ROUTE_TO_ALL,
    MESSAGE_ROUTE_TO_SELF,
    Action,
    Context,
    Environment,
    Message,
    NoMoneyException,
    Role,
    RoleDeclarationError,
    RoleFailedError,
    Team,
    UnknownRoleError,
    UserRequirement,
    known_content,
)
from tests.helpers import factory
from tests.helpers.eventually import eventually, never
from tests.helpers.runtimes import quick

Make = Callable[..., Environment]


@pytest.fixture
async def make(server_url: str) -> AsyncIterator[Make]:
    """Makes environments of one namespace."""
    namespace, made = f"roles-{os.urandom(4).hex()}", []

    def new(*roles: Role, context: Context | None = None, **options: Any) -> Environment:
        settings: BrokerSettings = quick(namespace)
        env = Environment(context, url=server_url, namespace=namespace, settings=settings, **options)
        env.add_roles(roles)
        made.append(env)
        return env

    yield new
    for env in made:
        await env.close()


class Say(Action):
    """Says what it heard last."""

    async def run(self, with_messages: list[Message] | None = None, **kwargs: Any) -> str:
        assert with_messages is not None
        return f"{self.name}: {with_messages[-1].content}"


class Answer(Say):
    pass


class Never(Say):
    pass


class Speaker(Role):
    """Hears users, and says something that nobody else hears."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.set_actions([Say])


class Answerer(Role):
    """Hears what a Speaker says."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.set_actions([Answer])
        self._watch({Say})


def contents(env: Environment) -> list[str]:
    return [message.content for message in env.history.get()]


# The listing


async def test_the_listing_runs_as_printed(server_url: str) -> None:
    factory.begun.clear()
    async with Environment(context=Context(), url=server_url) as env:
        env.add_roles(factory.roles())
        env.publish_message(Message(content="New user requirements", send_to=factory.AgentA))
        while not env.is_idle:
            await env.run()
        assert factory.begun == {"A": 1, "B": 30, "C": 30, "D": 30}
        assert factory.counts(env) == factory.WANTED
        assert len(env.results) == 10
        wanted = [
            f"D(C(B(D(C(B(D(C(B(New user requirements {number})))))))))" for number in range(factory.SUBTASKS)
        ]
        assert sorted(message.content for message in env.results) == wanted
        assert {message.subtask[0].number for message in env.results} == set(range(1, 11))


async def test_idle_is_never_true_as_long_as_something_is_left(make: Make) -> None:
    env = make(*factory.roles())
    assert not env.is_idle  # nobody has asked the server yet
    for results in (10, 20):
        env.publish_message(Message("New user requirements"))
        assert not env.is_idle
        running = asyncio.create_task(env.run())
        while not running.done():
            assert not env.is_idle or len(env.results) == results
            await asyncio.sleep(0.001)
        assert env.is_idle
        assert len(env.results) == results


async def test_joined_subtasks_are_heard_once_in_each_round(make: Make) -> None:
    class Compiler(factory.AgentC):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self._watch({factory.AgentBAction}, join=True)

        async def _act(self) -> Message:
            heard.append([message.content for message in self.rc.news])
            return Message("compiled")

    class Reviewer(factory.AgentD):
        async def _act(self) -> Message | None:
            rounds.append(self.rc.round)
            if self.rc.is_last_round:
                return Message("verdict")
            for number in range(factory.SUBTASKS):
                self.publish_message(Message(f"better {number}"))
            return None

    heard: list[list[str]] = []
    rounds: list[int] = []
    factory.begun.clear()
    compiler = Compiler(name="compiler")
    compiler.set_actions([factory.AgentCAction])
    env = make(factory.AgentA(), factory.AgentB(), compiler, Reviewer())
    env.publish_message(Message("New", send_to=factory.AgentA))
    await env.run()
    assert factory.begun["A"] == 1
    assert factory.counts(env)["AgentB"] == 30
    assert heard[0] == [f"B(New {number})" for number in range(10)]
    assert heard[2] == [f"B(better {number})" for number in range(10)]
    assert (len(heard), rounds) == (3, [1, 2, 3])
    assert [message.content for message in env.results] == ["verdict"]


# Who gets what


async def test_a_message_to_nobody_is_refused_and_not_in_the_history(make: Make) -> None:
    env = make(Speaker(name="Ada"))
    with pytest.raises(UnknownRoleError, match="Adam"):
        env.publish_message(Message("hello", send_to="Adam"))
    assert env.publish_message(Message("hello", cause_by=Never)) is False
    assert env.publish_message(Message("hello", send_to="Ada")) is True
    await env.run()
    assert contents(env) == ["hello", "hello", "Say: hello"]
    assert [message.cause_by.rpartition(".")[2] for message in env.results] == ["Never", "Say"]


async def test_a_role_that_writes_to_nobody_is_told_where_it_does_so(make: Make) -> None:
    class Careful(Speaker):
        async def _act(self) -> Message:
            try:
                self.rc.env.publish_message(Message("?", send_to="Bob"))
            except UnknownRoleError as error:
                return Message(f"no {error.address}")
            raise AssertionError

    class Careless(Speaker):
        async def _act(self) -> Message:
            return Message("?", send_to="Bob")

    env = make(Careful(), Careless())
    env.publish_message(Message("go", send_to="Careful"))
    env.publish_message(Message("go", send_to="Careless"))
    with pytest.raises(RoleFailedError, match=r"Careless failed: .*Bob"):
        await env.run()
    assert contents(env) == ["go", "go", "no Bob"]
    assert env.is_idle


async def test_an_address_counts_whatever_is_watched(make: Make) -> None:
    env = make(Speaker(name="Ada"), Answerer())
    for address in ("Ada", Speaker, "Speaker", {"Ada", "Answerer"}):
        env.publish_message(Message("hello", send_to=address, cause_by=Never))
    await env.run()
    said = Counter(contents(env))
    assert (said["Say: hello"], said["Answer: hello"], said["Answer: Say: hello"]) == (4, 1, 4)


async def test_who_does_not_watch_gets_nothing(make: Make) -> None:
    class Deaf(Speaker):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self._watch(())

        async def _act(self) -> Message:
            raise AssertionError("it heard something")

    env = make(Speaker(), Deaf())
    env.publish_message(Message("hello"))
    await env.run()
    assert contents(env) == ["hello", "Say: hello"]


async def test_a_role_hears_itself_only_when_it_asks_to(make: Make) -> None:
    class Echo(Speaker):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self._watch({UserRequirement, Say})

    class Noting(Role):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.set_actions([Answer])

        async def _act(self) -> Message | None:
            noted.append(self.rc.news[0].content)
            return Message("note", send_to=MESSAGE_ROUTE_TO_SELF) if len(noted) == 1 else None

    noted: list[str] = []
    env = make(Echo(), Noting())
    env.publish_message(Message("hello", send_to="Echo"))
    env.publish_message(Message("hello", send_to="Noting"))
    await env.run()
    assert [text for text in contents(env) if text.startswith("Say")][-1] == "Say: Say: Say: hello"
    assert noted == ["hello", "note"]


async def test_a_message_without_a_cause_is_caused_by_the_action_and_does_not_go_round_for_ever(
    make: Make,
) -> None:
    class Careless(Speaker):
        async def _act(self) -> Message:
            return Message("again")

    class Stubborn(Speaker):
        async def _act(self) -> Message:
            return Message("again", cause_by=UserRequirement, send_to=MESSAGE_ROUTE_TO_ALL)

    env = make(Careless(), Stubborn(), max_rounds=5)
    env.publish_message(Message("go", send_to="Careless"))
    await env.run()
    assert contents(env) == ["go", "again"]
    assert env.history.get()[-1].cause_by.endswith(".Say")
    env.publish_message(Message("go", send_to="Stubborn", max_rounds=2))
    await env.run()
    assert Counter(contents(env))["again"] < 10


async def test_a_circle_without_a_bound_ends_at_the_limit_of_hops(make: Make) -> None:
    class Stubborn(Speaker):
        async def _act(self) -> Message:
            return Message("again", cause_by=UserRequirement)

    env = make(Stubborn(), max_rounds=None, max_hops=7)
    env.publish_message(Message("go"))
    with pytest.raises(RoleFailedError, match="7 acts led"):
        await env.run()
    assert contents(env) == ["go", *["again"] * 7]


def test_two_roles_of_one_name_are_refused() -> None:
    env = Environment()
    env.add_roles([Speaker(name="Ada"), Answerer(), Speaker(name="Bob"), Speaker()])
    with pytest.raises(RoleDeclarationError, match="'Ada'"):
        env.add_role(Answerer(name="Ada"))
    with pytest.raises(RoleDeclarationError, match="'Answerer'"):
        env.add_role(Answerer())
    assert env.role_names() == ["Ada", "Answerer", "Bob", "Speaker"]


async def test_two_processes_that_run_a_role_share_its_work(make: Make) -> None:
    one, other = make(*factory.roles()), make(*factory.roles())
    await one.run()
    await other.run()
    one.publish_message(Message("New"))
    await one.run()
    assert factory.counts(one) == factory.WANTED
    await other.run()
    assert factory.counts(other) == factory.WANTED
    assert len(other.results) == 10


async def test_a_message_with_the_id_of_an_earlier_one_is_handled_once(make: Make) -> None:
    for _ in range(2):
        env = make(Speaker())
        env.publish_message(Message("hello", id="order 17"))
        env.publish_message(Message("hello", id="order 17"))
        await env.run()
        assert contents(env) == ["hello", "Say: hello"]
        await env.close()


async def test_a_message_that_comes_by_two_ways_is_answered_to_once(make: Make) -> None:
    env = make(Speaker(name="Ada"))
    env.publish_message(Message("hello", id="order 17"))
    env.publish_message(Message("hello", id="order 17", send_to="Ada"))
    await env.run()
    assert contents(env) == ["hello", "Say: hello"]


# What fails, and what survives


class Flaky(Speaker):
    """Fails as long as it is told to."""

    noted: int = 0
    memo: list[str] = Field(default_factory=list)

    async def _act(self) -> Message:
        self.noted += 1
        self.memo.append(self.rc.news[0].content)
        if broken:
            raise ValueError("broken")
        heard = [message.content for message in self.rc.memory.get()]
        return Message(f"{self.noted} {self.memo} {heard}")


broken: list[bool] = []


async def test_who_fails_is_named_the_others_go_on_and_a_failed_act_leaves_nothing_behind(make: Make) -> None:
    env = make(Flaky(), Answerer())
    broken.append(True)
    try:
        env.publish_message(Message("one", send_to="Flaky"))
        env.publish_message(Message("two", send_to="Flaky"))
        env.publish_message(Message("three", send_to="Answerer"))
        with pytest.raises(
            RoleFailedError, match=r"Flaky failed: ValueError.*1 more.*dead show --namespace .* Flaky/"
        ) as caught:
            await env.run()
        assert caught.value.role == "Flaky"
    finally:
        broken.clear()
    assert contents(env) == ["one", "two", "three", "Answer: three"]
    await env.run()  # it was said once
    assert await env.replay() == 2
    assert not env.is_idle
    await env.run()
    said = [message.content for message in env.history.get_by_action(Say)]
    first = "1 ['one'] ['one']"
    assert said == [first, f"2 ['one', 'two'] {['one', 'two']}"]


async def test_after_a_restart_it_goes_on_with_memory_fields_and_what_was_waiting(make: Make) -> None:
    first = make(Flaky())
    first.publish_message(Message("one"))
    await first.run()
    first.publish_message(Message("two"))
    await first.flush()
    await first.close()
    again = make(Flaky())
    assert not again.is_idle
    while not again.is_idle:
        await again.run()
    said = again.history.get()[-1].content
    assert said == "2 ['one', 'two'] ['one', 'two']"


async def test_a_poisoned_body_is_a_dead_letter_and_makes_nothing(make: Make) -> None:
    made: list[str] = []

    class Secret(BaseModel):
        command: str

        def model_post_init(self, context: Any, /) -> None:
            made.append(self.command)

    @known_content
    class Design(BaseModel):
        title: str

    class Reader(Role):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.set_actions([Say])

        async def _act(self) -> Message:
            content = self.rc.news[0].instruct_content
            assert isinstance(content, Design)
            return Message(f"read {content.title}", instruct_content=content)

    env = make(Reader())
    env.publish_message(Message("a", instruct_content=Design(title="wheel")))
    await env.run()
    assert env.history.get()[-1].instruct_content == Design(title="wheel")
    runtime = await env.runtime()
    name = f"{__name__}.Secret"
    body = {"content": "b", "instruct_content": {"type": name, "value": {"command": "rm"}}}
    evaluated = {
        "content": "b",
        "instruct_content": {"class": name, "mapping": "__import__('os')", "value": {}},
    }
    for one in (body, evaluated):
        await runtime.transport.admin.command(
            "XADD", runtime.transport.keys.of(f"topic:{_topic(UserRequirement)}"), "*",
            "id", os.urandom(4).hex(), "type", "callboard.roles.Message", "key", "main", "body", _json(one),
        )  # fmt: skip
    with pytest.raises(RoleFailedError, match="Reader failed"):
        await env.run()
    letters = await list_letters(runtime.transport, "Reader")
    assert len(letters) == 2
    assert made == []
    assert env.is_idle


def _topic(action: type[Action]) -> str:
    from callboard.roles.message import any_to_str, topic_of

    return topic_of(any_to_str(action))


def _json(value: Any) -> str:
    import json

    return json.dumps(value)


# Money


class Ask(Action):
    async def run(self, with_messages: list[Message] | None = None, **kwargs: Any) -> str:
        assert with_messages is not None
        return await self._aask(with_messages[-1].content)


class Asker(Role):
    profile: str = "clerk"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.set_actions([Ask])


def a_model() -> Context:
    """Each answer costs 1 USD: 10 tokens at 100,000 USD a million."""
    usage = RequestUsage(prompt_tokens=0, completion_tokens=10)
    answer = CreateResult(finish_reason="stop", content="well", usage=usage, cached=False)
    client = ReplayChatCompletionClient(default=answer)
    prices = {client.model: Price(prompt=0, completion=100_000)}
    return Context(client, settings=ModelSettings(prices=prices, assumed_completion_tokens=10))


async def test_the_budget_is_not_swallowed_and_survives_a_restart(make: Make) -> None:
    team = Team(make(Asker(), context=a_model()))
    team.invest(2.5)
    for number in range(4):
        team.env.publish_message(Message(f"task {number}"))
    with pytest.raises(NoMoneyException, match=r"2\.5 USD"):
        await team.run()
    assert team.cost_manager.total_cost == 2.0
    await team.env.close()

    again = Team(make(Asker(), context=a_model()))
    with pytest.raises(NoMoneyException):
        await again.run()
    assert (again.cost_manager.total_cost, again.cost_manager.max_budget) == (2.0, 2.5)
    again.invest(10.0)
    history = await again.run()
    assert len(history.get_by_action(Ask)) == 4
    assert again.cost_manager.total_cost == 4.0
    assert len(again.env.results) == 4


@pytest.mark.parametrize("usd", [float("nan"), -1.0])
async def test_a_budget_that_limits_nothing_is_refused(make: Make, usd: float) -> None:
    with pytest.raises(RoleDeclarationError, match="USD"):
        make(Asker(), context=a_model()).invest(usd)


async def test_what_was_invested_is_there_before_anything_is_sent_again(make: Make) -> None:
    env = make(Asker(), context=a_model())
    env.invest(0.0)
    env.publish_message(Message("task"))
    with pytest.raises(NoMoneyException):
        await env.run()
    env.invest(1.0)
    assert await env.replay("NoMoneyException") == 1
    stored = await RedisStore((await env.runtime()).transport.admin).table("usage:run:main")
    assert float(stored["limit_usd"]) == 1.0
    await env.run()
    assert len(env.results) == 1


async def test_however_many_were_given_up_all_are_taken_up_again(make: Make) -> None:
    team = Team(make(Asker(), context=a_model()))
    team.invest(0.5)
    for number in range(101):
        team.env.publish_message(Message(f"task {number}"))
    with pytest.raises(NoMoneyException):
        await team.run()
    team.invest(1000.0)
    await team.run()
    assert len(team.env.results) == 101


async def test_a_person_answers_in_the_place_of_the_model_also_after_a_restart(make: Make) -> None:
    first = make(Asker(name="Ada", is_human=True), Answerer())
    first.publish_message(Message("How are you?", send_to="Ada"))
    await first.flush()
    inputs = (await first.runtime()).inputs
    await eventually(inputs.list)
    await first.close()
    env = make(Asker(name="Ada", is_human=True), Answerer())
    runtime = await env.runtime()
    running = asyncio.create_task(env.run())
    await eventually(lambda: len(env.history) == 1)
    await never(running.done, during=0.1)
    [request] = await runtime.inputs.list()
    assert (request.question, env.is_idle) == ("How are you?", False)
    await runtime.inputs.answer(request.id, "Well, thank you.")
    await running
    assert contents(env) == ["How are you?", "Well, thank you."]


async def test_a_team_gives_its_task_to_whom_it_is_told(make: Make) -> None:
    team = Team(make(Speaker(name="Ada"), Speaker(name="Bob")))
    team.run_project("hello", send_to="Bob")
    history = await team.run(n_round=1)
    assert [message.sent_from for message in history.get()] == ["", "Bob"]
    assert (team.idea, team.env.history.get()[0].max_rounds) == ("hello", 1)


async def test_projects_do_not_see_each_other_and_can_be_forgotten(make: Make) -> None:
    one, other = make(Flaky(), project="one"), make(Flaky(), project="other")
    for env in (one, other):
        env.publish_message(Message(env.project))
        await env.run()
        assert contents(env) == [env.project, f"1 ['{env.project}'] ['{env.project}']"]
    await one.reset()
    one.publish_message(Message("new"))
    await one.run()
    assert contents(one) == ["new", "1 ['new'] ['new']"]


async def test_a_program_beside_the_processes_reads_along(make: Make) -> None:
    working = make(*factory.roles())
    await working.run()
    runtime = await working.runtime()
    client = working.on(runtime, "side")
    client.publish_message(Message("New"))
    await client.run()
    assert factory.counts(client) == factory.WANTED
    assert await runtime.get(AgentId("AgentB", "side/3")) == AgentId("AgentB", "side/3")
    assert TopicId("x", "side").source == "side"
    assert not working.history.get()
