"""`callboard ask` of a team: what is said to somebody who has not read the page."""

from __future__ import annotations

from typing import Final

import pytest

from .commands import ShopFolder

POETS: Final = """
from callboard import App
from callboard.agents import AssistantAgent
from callboard.models import ReplayChatCompletionClient
from callboard.models.replay import Delayed
from callboard.teams import RoundRobinGroupChat

app = App("poems")
slow = ReplayChatCompletionClient(default=lambda messages: Delayed(60, "The sea."))
app.team(RoundRobinGroupChat([AssistantAgent("writer", slow)], name="poets", max_turns=1))
"""


@pytest.fixture
def poets(shop: ShopFolder) -> ShopFolder:
    (shop.folder / "poets.py").write_text(POETS)
    return shop


def test_wrong_use_says_how_a_team_is_asked(poets: ShopFolder) -> None:
    wrong = {
        (
            "poets/sea",
            "A line",
        ): "poets is a team, which is given a task: callboard ask MODULE:APP poets 'the task' "
        "--conversation sea",
        ("poets.writer/sea", "A line"): "poets.writer belongs to the team poets, which is given a task",
        ("poets", "A", "line"): "give it a task as one text in quotes",
        ("poet", "A line", "--conversation", "sea"): "There is no agent type 'poet'. Did you mean 'poets'?",
        ("poets", "A line", "--if-busy", "wait"): "--if-busy is reject, enqueue, interrupt, and not 'wait'",
        ("poets/sea", "callboard.team.Describe", "--conversation", "a"): "poets/sea is no team",
    }
    done = poets.run_each(*(("ask", "poets:app", *words) for words in wrong))

    assert [command.returncode for command in done] == [2] * len(wrong)
    for command, said in zip(done, wrong.values(), strict=True):
        assert said in command.stderr


def test_a_conversation_with_a_run_says_which_options_there_are(poets: ShopFolder) -> None:
    with poets.started("worker", "poets:app") as worker:
        worker.shows("works as")
        with poets.started("ask", "poets:app", "poets", "A line", "--conversation", "sea") as asking:
            asking.shows("A line")
            second = poets.run("ask", "poets:app", "poets", "Another", "--conversation", "sea")

    assert second.returncode == 1
    assert "the conversation 'sea' of poets has a run under way" in second.stderr
    assert "--if-busy enqueue" in second.stderr


def test_a_member_without_a_worker_is_named(poets: ShopFolder) -> None:
    with poets.started("worker", "poets:app", "--type", "poets") as manager:
        manager.shows("works as")
        with poets.started("ask", "poets:app", "poets", "A line") as asking:
            asking.shows("no worker runs 'poets.writer' now")
