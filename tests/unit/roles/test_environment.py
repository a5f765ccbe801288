"""An environment and its connection; what roles do in it is in tests/contract/test_roles.py."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Sequence
from typing import Any

import pytest

from callboard import App
from callboard.broker.errors import ServerUnavailableError
from callboard.errors import DuplicateAgentTypeError
from callboard.models import ModelSettings, Price, ReplayChatCompletionClient
from callboard.roles import (
    Action,
    Context,
    Environment,
    EnvironmentStateError,
    Message,
    NoMoneyException,
    Role,
    RoleDeclarationError,
    Team,
    UnknownRoleError,
)
from callboard.roles.routing import ROUNDS
from tests.helpers.servers import free_port


class Say(Action):
    async def run(self, with_messages: list[Message] | None = None, **kwargs: Any) -> str:
        assert with_messages is not None
        return f"{len(with_messages)}"


class Speaker(Role):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.set_actions([Say])


class Echoing(Speaker):
    """Answers what it says itself."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._watch({Say})


def contents(env: Environment) -> list[str]:
    return [message.content for message in env.history.get()]


async def test_without_a_server_nothing_is_lost_and_it_is_said_each_time() -> None:
    env = Environment(url=f"redis://127.0.0.1:{free_port()}")
    env.add_role(Speaker())
    env.publish_message(Message("hello"))
    for _ in range(2):
        with pytest.raises(ServerUnavailableError):
            await env.run()
        assert not env.is_idle
    await env.close()


def test_each_event_loop_has_an_environment_of_its_own_and_leaves_nothing_behind() -> None:
    env = Environment(url=f"memory://roles-{os.urandom(4).hex()}")
    env.add_role(Speaker())

    async def once() -> list[str]:
        env.publish_message(Message("hello"))
        while not env.is_idle:
            await env.run()
        return contents(env)

    assert asyncio.run(once())[-2:] == ["hello", "1"]
    assert not env.is_idle  # its runtime ended with the loop
    assert asyncio.run(once())[-2:] == ["hello", "1"]


async def test_several_may_wait_at_the_same_time_and_roles_may_come_later() -> None:
    async with Environment(url=f"memory://roles-{os.urandom(4).hex()}") as env:
        env.add_role(Speaker(name="Ada"))
        for _ in range(3):
            env.publish_message(Message("hello", send_to="Ada"))
        await asyncio.gather(*(env.run() for _ in range(3)))
        assert sorted(contents(env)) == ["1", "3", "5", *["hello"] * 3]
        env.add_role(Speaker(name="Bob"))
        env.publish_message(Message("hi", send_to="Bob"))
        await env.run()
        assert contents(env)[-2:] == ["hi", "1"]


async def test_what_can_not_work_is_said() -> None:
    with pytest.raises(EnvironmentStateError, match="no roles"):
        await Environment().run()
    with pytest.raises(RoleDeclarationError, match="max_rounds"):
        Environment(max_rounds=0)
    with pytest.raises(RoleDeclarationError, match="<all>"):
        Environment().add_role(Role(name="<all>"))
    with pytest.raises(RoleDeclarationError, match="Team"):
        Team(Environment(), context=Context())
    with pytest.raises(RoleDeclarationError, match="n_round"):
        await Team().run(n_round=0)


def test_roles_are_declared_in_an_app() -> None:
    app, env = App("roles"), Environment()
    env.add_roles([Speaker(name="Ada Lovelace"), Speaker()])
    with pytest.raises(UnknownRoleError):
        env.declare(app, processes={"Bob": 2})
    env.declare(app, processes={"Ada Lovelace": 2}, max_attempts=7)
    declared = {one.type: (one.processes, one.settings.max_attempts) for one in app}
    assert declared == {"Ada-x20-Lovelace": (2, 7), "Speaker": (1, 7)}
    with pytest.raises(DuplicateAgentTypeError):
        env.declare(app)
    assert env.get_role("Ada Lovelace") is env.roles["Ada-x20-Lovelace"]
    assert env.role_names() == list(env.get_roles())
    assert repr(env) == "<Environment main: Ada-x20-Lovelace, Speaker>"


@pytest.mark.parametrize("bound", [0, 1.5, math.nan, math.inf, True, "3"])
async def test_a_bound_that_bounds_nothing_is_refused(bound: Any) -> None:
    for options in ({"max_rounds": bound}, {"max_hops": bound}):
        with pytest.raises(RoleDeclarationError, match=next(iter(options))):
            Environment(**options)
    with pytest.raises(RoleDeclarationError, match="n_round"):
        await Team(url="memory://").run(n_round=bound)


def test_a_budget_needs_the_price_of_the_model() -> None:
    model = ReplayChatCompletionClient(default="x")
    with pytest.raises(RoleDeclarationError, match="price"):
        Team(context=Context(model)).invest(1)
    prices = {model.model: Price(prompt=1, completion=1)}
    Team(context=Context(model, settings=ModelSettings(prices=prices))).invest(1)
    Team().invest(1)  # nobody is asked


def test_what_a_dead_letter_tells_of_money_is_read() -> None:
    error = NoMoneyException(2.25, 1.5)
    told = NoMoneyException.told_by(f"NoMoneyException: {error}")
    assert told is not None
    assert (told.amount, told.limit) == (2.25, 1.5)
    assert NoMoneyException.told_by("NoMoneyException: written by hand") is None


async def test_who_leaves_the_rounds_as_they_are_is_told_when_they_end_a_loop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given: Sequence[tuple[dict[str, Any], int | None, int, int]] = [
        ({}, None, ROUNDS, 1),
        ({"max_rounds": 2}, None, 2, 0),
        ({"max_rounds": ROUNDS}, None, ROUNDS, 0),
        ({}, ROUNDS, ROUNDS, 0),
    ]
    for options, own, rounds, warnings in given:
        caplog.clear()
        env = Environment(url="memory://", **options)
        env.add_role(Echoing())
        env.publish_message(Message("go", send_to=Echoing, max_rounds=own))
        await env.run()
        await env.run()
        assert [one.sent_from.rpartition(".")[2] for one in env.cut_short] == ["Echoing"]
        assert len(env.history) == 1 + rounds
        assert len([one for one in caplog.records if "its max_rounds=3 times" in one.message]) == warnings
        await env.close()
