"""The examples of teams: each is run without a key, in this process and on the bus."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from typing import Any

import pytest

from callboard.agents import TaskResult
from callboard.messages import BaseChatMessage
from examples.models import close_models
from tests.helpers.openai_server import Answer, OpenAIServer
from tests.helpers.runtimes import Runtimes

TEAMS: dict[str, tuple[list[str], str]] = {
    "writer_and_critic": (["writer", "critic"] * 2, "Now it does. APPROVE"),
    "research_team": (["researcher", "writer", "checker"], "Both numbers are those of the researcher. DONE"),
    "swarm_triage": (["triage", "refunds"], "Your money for order 7 is on its way. TERMINATE"),
    "customer_service": (
        ["triage", *["refunds"] * 4, "boss", *["_Group_Tool_Executor"] * 4],
        "Your money is on its way.",
    ),
    "parallel_graph": (["writer", "grammar", "style", "final"], "Tea is drunk all over the world."),
    "concurrent_reviewers": (
        ["security", "speed", "style", "lead"],
        "Return a + b, with types, and without eval.",
    ),
    "dispatcher.app": (
        ["planning_agent", "search_agent", "planning_agent", "coordinator"],
        "The teapot is of porcelain and gold. TERMINATE",
    ),
}


@pytest.fixture(autouse=True)
def no_model_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def runtimes() -> AsyncIterator[Runtimes]:
    made = Runtimes(f"memory://examples-{os.urandom(4).hex()}")
    yield made
    await made.close()


def spoken(messages: Sequence[Any]) -> list[str]:
    """Who spoke, the task left out."""
    return [one.source for one in messages if isinstance(one, BaseChatMessage)][1:]


def check(name: str, result: TaskResult) -> None:
    who, last = TEAMS[name]
    assert sorted(spoken(result.messages)) == sorted(who)  # those who speak at once come in any order
    assert result.messages[-1].to_text() == last


@pytest.mark.parametrize("name", TEAMS)
async def test_it_runs_in_one_process(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example = import_module(f"examples.{name}")
    check(name, await example.make_team().run(task=example.TASK))
    monkeypatch.setattr("sys.argv", [name])
    await example.main()
    assert TEAMS[name][1] in capsys.readouterr().out


@pytest.mark.parametrize("name", TEAMS)
async def test_it_runs_on_the_bus(name: str, runtimes: Runtimes) -> None:
    example = import_module(f"examples.{name}")
    runtime = runtimes.of(example.app)
    runtime.start()
    check(name, await example.make_team().on(runtime).run(task=example.TASK))


@pytest.mark.parametrize("name", TEAMS)
def test_its_app_has_the_team(name: str) -> None:
    example = import_module(f"examples.{name}")
    [team] = example.app.teams.values()
    assert team.name == example.make_team().name


async def test_the_writer_uses_what_is_known_of_the_reader() -> None:
    example = import_module("examples.research_team")
    result = await example.make_team().run(task=example.TASK)
    [text] = [one.to_text() for one in result.messages if one.source == "writer" and "Nile" in one.to_text()][
        -1:
    ]
    assert text == "The Nile is 6,650 km long, the Amazon 6,400 km."


async def test_any_server_can_be_its_model(monkeypatch: pytest.MonkeyPatch) -> None:
    example = import_module("examples.writer_and_critic")
    monkeypatch.setenv("OPENAI_MODEL", "one-of-ours")
    with OpenAIServer(Answer("I have nothing to say. APPROVE")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        result = await example.make_team().run(task="A line.")
        await close_models()
    assert spoken(result.messages) == ["writer", "critic"]
    assert [request.body["model"] for request in server.requests] == ["one-of-ours"] * 2
