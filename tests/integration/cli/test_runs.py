"""`callboard runs` and `callboard schedules`, as somebody who looks after an app uses them."""

from __future__ import annotations

import json
from typing import Final

import pytest

from .commands import ShopFolder

TEAMS: Final = """
from datetime import timedelta

from callboard import App
from callboard.agents import AssistantAgent
from callboard.models import ReplayChatCompletionClient
from callboard.models.replay import Delayed
from callboard.teams import RoundRobinGroupChat

app = App("press")

def team(name, model):
    members = [AssistantAgent(who, model) for who in ("writer", "critic")]
    return app.team(RoundRobinGroupChat(members, name=name, max_turns=3))

quick = team("quick", ReplayChatCompletionClient(default=lambda messages: "The sea is wide."))
slow = team("slow", ReplayChatCompletionClient(default=lambda messages: Delayed(60, "The sea.")))
app.schedule("0 9 * * mon", "What is new?", team=quick, name="weekly", tz="Europe/Berlin")
app.schedule(timedelta(days=400), "Begin", team=slow, name="rare")
"""


@pytest.fixture
def press(shop: ShopFolder) -> ShopFolder:
    (shop.folder / "press.py").write_text(TEAMS)
    return shop


def test_runs_are_listed_shown_followed_and_given_orders(press: ShopFolder) -> None:
    with press.started("worker", "press:app") as worker:
        worker.shows("works as")
        press.out("ask", "press:app", "quick", "A line", "--conversation", "sea")
        press.out("schedules", "run-now", "press:app", "rare")
        listed = json.loads(press.out("runs", "list", "press:app", "--json"))
        assert [(one["team"], one["state"]) for one in listed] == [
            ("slow", "working"),
            ("quick", "completed"),
        ]
        slow, quick = (one["run_id"] for one in listed)
        of = ("--namespace", "press")
        forked = press.out("runs", "fork", "press:app", quick[:8], "--conversation", "lake")
        assert forked == "sea is forked to lake: the team is quick\n"
        (
            table,
            of_sea,
            before,
            shown,
            followed,
            some,
            paused,
            again,
            resumed,
            cancelled,
            late,
            none,
            export,
        ) = press.run_each(
            ("runs", "list", "press:app", "--state", "completed"),
            ("runs", "list", "press:app", "--conversation", "sea", "--since", "1h"),
            ("runs", "list", *of, "--conversation", "lake"),
            ("runs", "show", "press:app", quick[:8]),
            ("runs", "follow", "press:app", quick[:8], "--json"),
            ("runs", "list", *of, "--limit", "1"),
            ("runs", "pause", *of, slow, "--now"),
            ("runs", "show", *of, slow[:6], "--json"),
            ("runs", "resume", *of, slow),
            ("runs", "cancel", *of, slow),
            ("runs", "pause", *of, slow),
            ("runs", "show", *of, "none"),
            ("runs", "export", "press:app", quick),
        )

    assert quick in table.stdout
    assert slow not in table.stdout
    assert [run in of_sea.stdout for run in (slow, quick)] == [False, True]
    assert before.stdout == "no such runs\n"
    for fact in ("sea", "A line", "3: writer 2, critic 1", "Maximum number of turns 3 reached."):
        assert fact in shown.stdout
    said = [json.loads(line) for line in followed.stdout.splitlines()]
    assert [one.get("source") for one in said] == ["user", "writer", "critic", "writer", None]
    assert [run in some.stdout for run in (slow, quick)] == [True, False]
    assert "there are older ones: --limit 10 shows more" in some.stderr
    assert paused.stdout == f"{slow} is paused\n"
    assert json.loads(again.stdout)["state"] == "paused"
    assert resumed.stdout == f"{slow} goes on\n"
    assert cancelled.stdout == f"{slow} is cancelled\n"
    assert (late.returncode, "has ended: it is cancelled" in late.stderr) == (1, True)
    assert (export.returncode, "start it with record=True" in export.stderr) == (1, True)
    assert (none.returncode, "The run 'none' can't be found: there is none." in none.stderr) == (1, True)


def test_schedules_are_listed_and_given_orders(press: ShopFolder) -> None:
    with press.started("worker", "press:app", "--type", "quick") as worker:
        worker.shows("works as")
        of = ("--namespace", "press")
        listed, paused, again, shown, resumed, removed, left, none = press.run_each(
            ("schedules", "list", *of, "--json"),
            ("schedules", "pause", *of, "weekly", "rare"),
            ("schedules", "pause", "press:app", "weekly"),
            ("schedules", "list", *of),
            ("schedules", "resume", *of, "weekly"),
            ("schedules", "remove", *of, "rare"),
            ("schedules", "list", *of, "--json"),
            ("schedules", "pause", *of, "weekly", "daily"),
        )

    assert [one["name"] for one in json.loads(listed.stdout)] == ["rare", "weekly"]
    assert paused.stdout == "weekly is paused\nrare is paused\n"
    assert again.stdout == "weekly was paused already\n"
    assert "0 9 * * mon (Europe/Berlin)" in shown.stdout
    assert "team quick" in shown.stdout
    assert resumed.stdout == "weekly goes on\n"
    assert removed.stdout == "rare is removed\n"
    assert [one["name"] for one in json.loads(left.stdout)] == ["weekly"]
    assert (none.returncode, none.stdout) == (1, "weekly is paused\n")
    assert "There is no schedule 'daily'. There are: weekly." in none.stderr


def test_wrong_use_says_what_is_right(press: ShopFolder) -> None:
    with press.started("worker", "press:app", "--type", "quick") as worker:
        worker.shows("works as")
        wrong = {
            ("runs", "list", "press:app", "--state", "done"): "--state is one of idle, queued, working",
            ("runs", "list", "press:app", "--since", "yesterday"): "--since",
            ("runs", "show", "press:app", "one", "two"): "give an app or --namespace, and one run",
            ("schedules", "pause", "press:app"): "name a schedule",
            ("pause", "press:app", "--now", "--topic", "visits"): "--now is for agents",
        }
        done = press.run_each(*wrong)

    assert [command.returncode for command in done] == [2] * len(wrong)
    for command, said in zip(done, wrong.values(), strict=True):
        assert said in command.stderr


def test_without_a_name_the_only_namespace_is_taken(shop: ShopFolder) -> None:
    shop.out("publish", "shop:app", "jobs", "Job", "name=one")
    for command in (["topics"], ["runs", "list"], ["dead", "list"], ["status"]):
        done = shop.run(*command)
        assert done.returncode == 0, done.stderr
        assert "in the namespace 'shop', the only one there" in done.stderr
    shop.out("publish", "shop:app", "jobs", "Job", "name=two", "--namespace", "second")
    done = shop.run("topics")
    assert (done.returncode, "There are: second, shop." in done.stderr) == (2, True)


def test_an_app_alone_is_no_run(shop: ShopFolder) -> None:
    shop.out("publish", "shop:app", "jobs", "Job", "name=one")
    done = shop.run("runs", "show", "shop:app")
    assert done.returncode == 2
    assert "give a run as well, as `callboard runs list shop:app` shows it" in done.stderr
