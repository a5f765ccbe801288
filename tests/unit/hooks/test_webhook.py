"""What an app says of its webhooks, and what they tell."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel, ValidationError

from callboard import App, TopicId
from callboard.agents import AssistantAgent
from callboard.errors import DuplicateAgentTypeError, SettingValueError, UnknownNameError
from callboard.foundation.component import ComponentNotAllowedError
from callboard.hooks import incoming_webhook, new_secret, webhook
from callboard.hooks.outgoing import EVENTS, Webhook
from callboard.models import ReplayChatCompletionClient
from callboard.teams import RoundRobinGroupChat, RunNotice
from callboard.web import door_id

URL, SECRET = "https://crm.example/t0ken?key=s3cr3t", new_secret()


def team(name: str = "desk") -> RoundRobinGroupChat:
    clerk = AssistantAgent("clerk", ReplayChatCompletionClient([]))
    return RoundRobinGroupChat([clerk], name=name, max_turns=1)


def made(**options: Any) -> Webhook:
    given = {"on": frozenset(EVENTS), "tenant": "", "allow_private": False, "timeout": 1.0, **options}
    return Webhook(**{"name": "crm", "url": URL, "secret": SECRET, **given})


def notice(**options: Any) -> RunNotice:
    given = {"team": "desk", "conversation": "c", "run_id": "r", "state": "completed", "at": 1.5, **options}
    return RunNotice(**given)


def test_its_agent_type_hears_of_the_teams_that_are_named() -> None:
    app = App("a")
    desk, bank = app.team(team()), app.team(team("bank"))
    webhook(app, "crm", URL, teams=[desk], secret=SECRET, concurrency=3)
    webhook(app, "audit", URL, teams=[desk, bank], secret=SECRET)
    assert (app.hearers_of("desk"), app.hearers_of("bank")) == (["crm", "audit"], ["audit"])
    assert app["crm"].settings.concurrency == 3
    assert app["crm"].settings.retry is not None
    with pytest.raises(DuplicateAgentTypeError):
        webhook(app, "crm", URL, teams=[desk], secret=SECRET)


def test_a_team_that_the_app_has_not_declared_is_refused() -> None:
    app = App("a")
    app.team(team())
    with pytest.raises(UnknownNameError, match="desk"):
        webhook(app, "crm", URL, teams=[team()], secret=SECRET)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("url", "http://crm.example/t0ken?s3cr3t"),
        ("url", "ftp://crm.example/"),
        ("url", "https:///t0ken"),
        ("url", "https://127.0.0.1/"),
        ("url", "https://[::ffff:10.0.0.1]/"),
        ("url", "https://metadata.localhost./"),
        ("url", "https://169.254.169.254/latest"),
        ("on", frozenset(["ended"])),
        ("tenant", "a:b"),
        ("timeout", 0),
        ("timeout", float("nan")),
        ("secret", "hush"),
    ],
)
def test_what_can_not_work_is_refused_where_it_is_said(name: str, value: Any) -> None:
    with pytest.raises(SettingValueError, match=name) as caught:
        made(**{name: value})
    assert "t0ken" not in str(caught.value)
    assert "hush" not in str(caught.value)


def test_neither_secret_nor_address_is_shown() -> None:
    shown = repr(made())
    assert "t0ken" not in shown
    assert SECRET not in shown
    assert made().host == "crm.example"


def test_a_secret_is_asked_for_when_it_is_needed() -> None:
    given: list[str] = []
    hook = made(secret=lambda: given)
    given.append(SECRET)
    assert len(hook.keys()) == 1


def test_the_same_is_told_in_every_attempt_and_something_else_of_another_run() -> None:
    end, question = notice(), notice(state="input_required", input_id="q")
    told = [made().told(one) for one in (end, end, question, notice(run_id="s"), notice(conversation="d"))]
    assert told[0] == told[1]
    assert len({one[0] for one in told if one is not None}) == 4
    assert all(one is not None and one[0].isascii() and "." not in one[0] for one in told)


def test_of_a_run_that_failed_the_error_is_told() -> None:
    told = made().told(notice(state="failed", error_type="ValueError", problem="no\n\ud800 such"))
    assert told is not None
    found = json.loads(told[1])
    assert (found["type"], found["timestamp"]) == ("run.ended", "1970-01-01T00:00:01.500Z")
    assert (found["data"]["state"], found["data"]["error"]) == ("failed", "no\n\ud800 such")


@pytest.mark.parametrize("kept", ["other:c", "c", "acmes:c", "acm:c", ":c", "ACME:c"])
def test_another_tenants_runs_are_not_told(kept: str) -> None:
    hook = made(tenant="acme")
    assert hook.told(notice(conversation=kept)) is None
    told = hook.told(notice(conversation="acme:c"))
    assert told is not None
    assert json.loads(told[1])["data"]["id"] == door_id("desk", "c", "r")


def test_what_was_not_asked_for_is_not_told() -> None:
    question = notice(state="input_required", input_id="q")
    assert made(on=frozenset(["run.ended"])).told(question) is None
    assert made(on=frozenset(["run.question"])).told(notice()) is None


async def test_its_client_reaches_public_addresses_only() -> None:
    """The name is one when it was declared, and stands for a private address when it is used."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise AssertionError("somebody came")

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with asynccontextmanager(made().opened)() as connections:
        for host in ("127.1", "localhost"):
            with pytest.raises(ComponentNotAllowedError):
                await connections.handle_async_request(httpx2.Request("POST", f"http://{host}:{port}/"))
    server.close()
    await server.wait_closed()


class Order(BaseModel):
    number: int


def test_an_incoming_one_is_read_as_what_the_app_said() -> None:
    app = App("a")
    one = incoming_webhook(
        app, "shop", topic="orders", message={"order.paid": Order}, secret=SECRET, key=lambda o: str(o.number)
    )
    assert one.message({}, {"type": "order.paid", "number": 3}) == (Order(number=3), TopicId("orders", "3"))
    others: list[Any] = [{"type": "order.lost"}, {"number": 3}, {"type": {}}, [], None, 1]
    for found in others:
        assert one.message({}, found) is None
    with pytest.raises(ValidationError):
        one.message({}, {"type": "order.paid"})
    all_of_them = incoming_webhook(app, "all", topic=TopicId("orders", "k"), message=Order, secret=SECRET)
    assert all_of_them.message({}, {"number": "3"}) == (Order(number=3), TopicId("orders", "k"))
    assert Order in app.message_classes()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("name", {"name": "a/b"}),
        ("scheme", {"scheme": "basic"}),
        ("key", {"topic": TopicId("a", "b"), "key": str}),
        ("secret", {"secret": ""}),
        ("secret", {"scheme": "github", "secret": "short"}),
    ],
)
def test_an_incoming_one_that_can_not_work_is_refused(name: str, options: dict[str, Any]) -> None:
    given: dict[str, Any] = {"name": "shop", "topic": "orders", "message": Order, "secret": SECRET, **options}
    with pytest.raises(SettingValueError, match=name):
        incoming_webhook(App("a"), **given)


def test_two_of_one_name_are_refused() -> None:
    app = App("a")
    incoming_webhook(app, "shop", topic="orders", message=Order, secret=SECRET)
    with pytest.raises(SettingValueError, match="no other incoming webhook"):
        incoming_webhook(app, "shop", topic="orders", message=Order, secret=SECRET)
