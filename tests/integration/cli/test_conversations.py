"""`callboard conversations` and `callboard forget`, of a team with memories, by the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .commands import ShopFolder

TEAM = '''"""A desk of two agents, one of which has a memory."""

from callboard import App
from callboard.agents import AssistantAgent
from callboard.memory import HashingEmbedder
from callboard.memory_service import MemoryServiceClient, memory_service
from callboard.models import FunctionCall, FunctionExecutionResultMessage, ReplayChatCompletionClient
from callboard.teams import RoundRobinGroupChat


def look_up(order: str) -> str:
    """Where an order is."""
    return f"{order} is on its way"


def script(messages):
    if isinstance(messages[-1], FunctionExecutionResultMessage):
        return "It is on its way.\\nBye \u202e"
    return [FunctionCall("1", \'{"order": "4711"}\', "look_up")]


app = App("desk")
memory = MemoryServiceClient(agent=lambda conversation: f"customer/{conversation}")
memory_service(app, embedder=HashingEmbedder())
model = ReplayChatCompletionClient(default=script)
clerk = AssistantAgent("clerk", model, tools=[look_up], memory=[memory], max_tool_iterations=2)
critic = AssistantAgent("critic", ReplayChatCompletionClient(default=lambda messages: "Well said."))
app.team(RoundRobinGroupChat([clerk, critic], name="desk", max_turns=2))
'''
GONE, STAYS = "customer 17; rm -rf *", "customer 171"


@pytest.fixture
def desk(shop: ShopFolder) -> ShopFolder:
    (shop.folder / "desk.py").write_text(TEAM)
    return shop


def test_what_was_said_is_listed_shown_exported_and_deleted(desk: ShopFolder) -> None:
    with desk.started("up", "desk:app", "--together", "1") as up:
        up.shows("works as")
        for key in (GONE, STAYS):
            desk.out("ask", "desk:app", "desk", "Where is it?", "--conversation", key)
        listed = {
            one["key"]: one for one in json.loads(desk.out("conversations", "list", "desk:app", "--json"))
        }
        assert set(listed) == {GONE, STAYS}
        assert (listed[GONE]["agent_type"], listed[GONE]["last_by"]) == ("desk", "critic")
        assert "no such" in desk.out("conversations", "list", "desk:app", "--team", "nobody")
        shown = desk.out("conversations", "show", "desk:app", GONE)
        assert "Where is it?" in shown
        assert "It is on its way.\nBye \\u202e" in shown
        assert "4711" not in shown
        assert "4711" in desk.out("conversations", "show", "desk:app", GONE, "--events")
        lines = desk.out("conversations", "export", "desk:app", GONE).splitlines()
        assert [json.loads(line)["number"] for line in lines] == list(range(len(lines)))
        missing = desk.run("conversations", "show", "desk:app", "customer 1")
        assert (missing.returncode, "there is no conversation" in missing.stderr) == (1, True)
        asked = desk.run("conversations", "delete", "desk:app", GONE)
        assert (asked.returncode, "add --yes" in asked.stderr) == (2, True)
        desk.out("conversations", "delete", "desk:app", GONE, "--yes")
        assert GONE not in desk.out("conversations", "list", "desk:app")
        assert GONE not in desk.out("runs", "list", "desk:app")
        assert STAYS in desk.out("runs", "list", "desk:app")


def _files_with(folder: Path, text: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def test_all_of_a_customer_is_forgotten_memories_included(desk: ShopFolder) -> None:
    with desk.started("up", "desk:app", "--together", "1") as up:
        up.shows("works as")
        for key in (GONE, "ada"):
            desk.out("ask", "desk:app", "desk", "Where is it?", "--conversation", key)
            (desk.folder / "tea.md").write_text(f"likes tea, says {key}")
            desk.out("memory", "import", "tea.md", "--app", "desk:app", "--agent", f"customer/{key}")
        asked = desk.run("forget", "desk:app", GONE)
        assert (asked.returncode, "memories" in asked.stdout) == (2, True)
        store = desk.folder / ".callboard" / "memory"
        assert _files_with(store, f"says {GONE}")
        forgotten = desk.run("forget", "desk:app", GONE, "--yes")
        assert forgotten.stdout == f"{GONE} is forgotten\n"
        looked_for = desk.out(
            "server", "cli", "--url", desk.environ["CALLBOARD_URL"], "--", "KEYS", "*customer 17*"
        )
        assert looked_for.strip() in ("", "(empty array)")
        remembered = json.loads(desk.out("memory", "stats", "--app", "desk:app", "--json"))
        counts = {one["agent"]: one["count"] for one in remembered}
        assert counts.get("customer/ada") == 1
        assert not counts.get(f"customer/{GONE}")
        assert not _files_with(store, GONE)
        assert _files_with(store, "says ada")
        found = desk.out("memory", "query", "tea", "--app", "desk:app", "--agent", "customer/ada")
        assert "likes tea, says ada" in found
        named = desk.run("forget", "desk:app", "ada", "--yes", "--no-search")
        assert named.returncode == 0
