import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from callboard import (
    AgentId,
    AgentInstantiationContext,
    AgentSettings,
    App,
    BaseAgent,
    BrokerSettings,
    ClosureContext,
    DefaultSubscription,
    MessageContext,
    RoutedAgent,
    Subscription,
    TopicId,
    TypePrefixSubscription,
    TypeSubscription,
    default_subscription,
    event,
    message,
    rpc,
    type_subscription,
)
from callboard.broker.errors import InvalidIdError, SettingsError
from callboard.core.subscriptions import subscription_factory
from callboard.errors import (
    DeclarationError,
    DuplicateAgentTypeError,
    SettingValueError,
    UnknownNameError,
)

from .recording import RecordingRuntime


class Visit(BaseModel):
    name: str


class HowMany(BaseModel):
    pass


class Count(BaseModel):
    total: int


@dataclass
class Other:
    pass


class Counter(RoutedAgent):
    class State(BaseModel):
        total: int = 0

    @event
    async def on_visit(self, message: Visit, ctx: MessageContext) -> None:
        self.state.total += 1

    @rpc
    async def on_how_many(self, message: HowMany, ctx: MessageContext) -> Count:
        return Count(total=self.state.total)


def direct(agent_type: str) -> TypePrefixSubscription:
    return TypePrefixSubscription(f"{agent_type}:", agent_type)


def test_an_agent_is_declared_with_everything_that_it_needs() -> None:
    app = App("counting")
    declare = app.agent("counter", topics=["visits"], prefixes=["visits."], processes=2, max_attempts=5)
    assert declare(Counter) is Counter
    declaration = app["counter"]
    assert declaration.type == "counter"
    assert declaration.agent_class is Counter
    assert declaration.processes == 2
    assert declaration.settings == AgentSettings(max_attempts=5)
    assert declaration.subscriptions == (
        TypeSubscription("visits", "counter"),
        TypePrefixSubscription("visits.", "counter"),
        direct("counter"),
    )
    assert isinstance(declaration.factory(), Counter)
    assert app.declarations == (declaration,)
    assert (list(app), len(app), "counter" in app, "other" in app) == ([declaration], 1, True, False)
    assert repr(app) == "<App counting: counter>"


def test_one_class_may_be_several_types() -> None:
    app = App("a")
    app.agent("one")(Counter)
    app.agent("two")(Counter)
    assert [declaration.type for declaration in app.declarations] == ["one", "two"]


def test_a_type_can_be_declared_once() -> None:
    app = App("a")
    app.agent("counter")(Counter)
    with pytest.raises(DuplicateAgentTypeError, match="Agent with type counter already exists"):
        app.agent("counter")(Counter)


def test_an_unknown_type_is_told_with_the_nearest() -> None:
    app = App("a")
    with pytest.raises(UnknownNameError, match=r"There is no agent type 'countr'\. None are declared yet\."):
        app["countr"]
    app.agent("counter")(Counter)
    with pytest.raises(LookupError, match="Did you mean 'counter'"):
        app["countr"]


@pytest.mark.parametrize("name", ["", "two words", "a/b", "a{b}"])
def test_names_are_checked(name: str) -> None:
    with pytest.raises(SettingValueError, match="name="):
        App(name)
    with pytest.raises(ValueError, match=r"namespace=|name="):
        App("fine", namespace=name)
    with pytest.raises(InvalidIdError, match="not a valid agent type"):
        App("fine").agent(name)


def test_the_namespace_is_the_name_unless_something_else_is_said() -> None:
    assert App("a").namespace == "a"
    assert App("a", namespace="b").namespace == "b"
    assert App("a", settings=BrokerSettings(lease=9)).namespace == "a"
    settings = BrokerSettings(namespace="c")
    assert App("a", settings=settings).namespace == "c"
    assert App("a", namespace="b", settings=settings).namespace == "b"
    assert App("a", settings=BrokerSettings(namespace="main")).namespace == "main"
    assert App("a").given_namespace is None
    assert App("a", settings=settings).settings is settings


@pytest.mark.parametrize("given", [Visit, 5, "Counter", len])
def test_an_agent_must_be_a_class_of_agents(given: Any) -> None:
    with pytest.raises(DeclarationError, match="can't be agent type 'x': it is not a subclass of Agent"):
        App("a").agent("x")(given)
    with pytest.raises(TypeError, match="not a subclass of Agent"):
        App("a").register("x", Counter, expected_class=given)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"topics": "visits"}, r"can't subscribe to 'visits': give a list, \['visits'\]"),
        ({"prefixes": "visits"}, r"give a list, \['visits'\]"),
        ({"topics": 5}, "can't subscribe to 5: give a list of topic types"),
        ({"topics": [5]}, "can't subscribe to 5: a topic type is a string"),
        ({"topics": [TypeSubscription("visits", "other")]}, "this subscription is for another agent type"),
    ],
)
def test_topics_must_be_topics(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DeclarationError, match=sentence):
        App("a").agent("x", **options)


@pytest.mark.parametrize("decorator", ["agent", "closure"])
def test_a_decorator_without_a_name_says_how_to_write_it(decorator: str) -> None:
    decorate: Any = getattr(App("a"), decorator)
    with pytest.raises(
        DeclarationError, match=rf"write @app\.{decorator}\('app', topics=\[...\]\) above App"
    ):
        decorate(App)


@pytest.mark.parametrize("given", [App("b"), App, "desk"], ids=repr)
def test_what_is_no_team_is_not_declared_as_one(given: Any) -> None:
    with pytest.raises(
        DeclarationError, match=r"is no team: give one, such as RoundRobinGroupChat\(\[agent\]"
    ):
        App("a").team(given)


def test_a_topic_type_must_be_valid() -> None:
    with pytest.raises(ValueError, match="'two words' is not a valid topic type"):
        App("a").agent("x", topics=["two words"])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"max_atempts": 1}, "There is no agent setting 'max_atempts'. Did you mean 'max_attempts'?"),
        ({"topic": "visits"}, "There is no agent setting 'topic'. Did you mean 'topics'?"),
        ({"max_attempts": 0}, "max_attempts=0 can't work: it must be a whole number, 1 or more"),
        ({"max_attempts": True}, "max_attempts=True can't work"),
        ({"concurrency": 1.5}, "concurrency=1.5 can't work"),
        ({"max_runtime": 0}, "max_runtime=0 can't work: it must be a number of seconds above 0"),
    ],
)
def test_settings_are_checked(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises((DeclarationError, SettingValueError)) as raised:
        App("a").agent("x", **options)
    assert sentence in str(raised.value)


def test_processes_are_counted() -> None:
    with pytest.raises(SettingValueError, match="processes=0 can't work"):
        App("a").agent("x", processes=0)(Counter)


def test_class_subscriptions_count_even_when_they_are_decorated_later() -> None:
    app = App("a")

    @default_subscription
    @app.agent("counter", topics=["visits"])
    @type_subscription("visits")
    class Subscribed(Counter):
        pass

    assert app["counter"].subscriptions == (
        TypeSubscription("visits", "counter"),
        TypeSubscription("default", "counter"),
        direct("counter"),
    )


def test_subscriptions_that_need_waiting_are_refused() -> None:
    async def make() -> Sequence[Subscription]:
        return [DefaultSubscription()]

    app = App("a")
    app.agent("counter")(subscription_factory(make)(type("Sub", (Counter,), {})))
    with pytest.raises(DeclarationError):
        app["counter"].subscriptions  # noqa: B018


class Describing(Counter):
    """Counts visits.

    And more.
    """

    def __init__(self, description: str) -> None:
        super().__init__(description)


class Demanding(Counter):
    def __init__(self, path: str, *, limit: int, optional: int = 0) -> None:
        super().__init__()


async def described(app: App, agent_type: str) -> str:
    runtime = RecordingRuntime()
    runtime.factories[agent_type] = app[agent_type].factory
    agent: BaseAgent = await runtime.make(agent_type)
    return agent.metadata["description"]


async def test_agents_are_made_with_their_description() -> None:
    app = App("a")
    app.agent("plain")(Counter)
    app.agent("given", description="given here")(Counter)
    app.agent("needed", description="given here")(Describing)
    app.agent("documented")(Describing)
    assert await described(app, "plain") == ""
    assert await described(app, "given") == "given here"
    assert await described(app, "needed") == "given here"
    assert await described(app, "documented") == "Counts visits."


def test_a_class_that_needs_arguments_is_refused() -> None:
    with pytest.raises(DeclarationError, match="Demanding needs the arguments path, limit") as raised:
        App("a").agent("x")(Demanding)
    assert "register('x', lambda: Demanding(...), expected_class=Demanding)" in str(raised.value)


async def test_register_takes_a_factory() -> None:
    app = App("a")

    async def factory() -> Counter:
        return Demanding("path", limit=1)

    declaration = app.register(
        "counter",
        factory,
        expected_class=Demanding,
        subscriptions=["visits", TypeSubscription("more", "counter")],
        processes=3,
        settings=AgentSettings(max_runtime=2.5),
    )
    assert app["counter"] is declaration
    assert declaration.factory is factory
    assert (declaration.processes, declaration.settings.max_runtime) == (3, 2.5)
    assert declaration.subscriptions == (
        TypeSubscription("visits", "counter"),
        TypeSubscription("more", "counter"),
        direct("counter"),
    )
    assert app.message_classes() == (Visit, HowMany, Count)
    assert await described(app, "counter") == ""


async def test_a_closure_is_an_agent() -> None:
    app, seen = App("a"), list[str]()

    @app.closure("printer", topics=["visits"], description="prints", max_attempts=1)
    async def printer(agent: ClosureContext, message: Visit, ctx: MessageContext) -> Count | None:
        seen.append(message.name)
        return None

    declaration = app["printer"]
    assert declaration.subscriptions == (TypeSubscription("visits", "printer"), direct("printer"))
    assert declaration.settings.max_attempts == 1
    assert app.message_classes() == (Visit, Count)
    assert await described(app, "printer") == "prints"
    await printer(AgentInstantiationContext, Visit(name="Ada"), None)  # type: ignore[arg-type]
    assert seen == ["Ada"]


def test_a_closure_with_a_wrong_signature_is_refused() -> None:
    with pytest.raises(AssertionError, match="it must have 3 parameters"):

        @App("a").closure("printer")  # type: ignore[type-var]
        async def printer(message: Visit) -> None: ...


def test_message_types_are_listed_by_wire_name() -> None:
    app = App("a")
    app.agent("counter")(Counter)

    @message(name="renamed")
    class Renamed(BaseModel):
        pass

    app.messages(Visit, Other, Renamed)
    assert app.message_types() == {
        "Visit": Visit,
        "HowMany": HowMany,
        "Count": Count,
        "Other": Other,
        "renamed": Renamed,
    }


def test_two_classes_of_one_name_are_refused() -> None:
    app = App("a")
    app.messages(Visit, type("Visit", (BaseModel,), {"__module__": "elsewhere"}))
    with pytest.raises(SettingsError, match="has that name"):
        app.message_types()


async def test_an_app_runs_in_this_process() -> None:
    app = App("counting")
    app.agent("counter", topics=["visits"])(Counter)
    async with app.running("memory://") as runtime:
        await runtime.publish_message(Visit(name="Ada"), TopicId("visits", "main"))
        assert await runtime.send_message(HowMany(), AgentId("counter", "main")) == Count(total=1)


CELLS = (
    """
from datetime import timedelta
from collections.abc import AsyncIterator
from callboard import App, MessageContext, RoutedAgent, TopicId, event
from callboard.agents import AssistantAgent
from callboard.models import ReplayChatCompletionClient
from callboard.teams import RoundRobinGroupChat
from pydantic import BaseModel

app = App("notebook")
""",
    """
class Mail(BaseModel):
    text: str
""",
    """
@app.agent("desk", topics=["mails"])
class Desk(RoutedAgent):
    @event
    async def on_mail(self, message: Mail, ctx: MessageContext) -> None:
        print("VERSION", "reads", message.text)

@app.resource
async def pool() -> AsyncIterator[str]:
    yield "VERSION"

team = app.team(RoundRobinGroupChat([AssistantAgent("ann", ReplayChatCompletionClient(["hi"]))], name="team", max_turns=1))
app.schedule(timedelta(hours=1), "What is new?", team=team)
""",
    """
import asyncio

async def main():
    async with app.running("memory://") as runtime:
        await runtime.publish_message(Mail(text="a mail"), TopicId("mails", "ada"))
        await runtime.stop_when_idle()

asyncio.run(main())
""",
)


def typed_in(*cells: str) -> subprocess.CompletedProcess[str]:
    """Runs cells one after the other in a process that is interactive, as IPython says it."""
    program = (
        f"import __main__, sys\nsys.ps1 = 'In : '\nfor cell in {cells!r}:\n    exec(cell, __main__.__dict__)"
    )
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )


def test_a_cell_of_a_notebook_can_be_run_again() -> None:
    done = typed_in(*CELLS, CELLS[1], CELLS[2].replace("VERSION", "second"), CELLS[3])
    assert done.stdout.splitlines() == ["VERSION reads a mail", "second reads a mail"], done.stderr


def test_another_class_of_a_notebook_does_not_take_a_type() -> None:
    done = typed_in(*CELLS, CELLS[2].replace("Desk", "Other"))
    assert "Agent with type desk already exists" in done.stderr
