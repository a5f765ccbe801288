"""The agent that finds tools and can't call them."""

from __future__ import annotations

import json
from typing import Any

from callboard.agents import Handoff
from callboard.dispatch import WorkbenchSearchAgent
from callboard.memory.llm_messages import FunctionCall
from callboard.messages import HandoffMessage, ToolCallExecutionEvent
from callboard.models import ReplayChatCompletionClient
from callboard.tools import DynamicWorkbench, FunctionTool

CALLED: list[str] = []


def list_scenes(folder: str) -> str:
    """Lists the scenes in a folder.

    Args:
        folder: Where to look.
    """
    CALLED.append(folder)
    return "none"


def send_mail(to: str) -> str:
    """Sends a mail."""
    return to


def call(name: str, /, **arguments: Any) -> FunctionCall:
    return FunctionCall(id="1", name=name, arguments=json.dumps(arguments))


def workbench() -> DynamicWorkbench:
    made = DynamicWorkbench(
        [
            FunctionTool(list_scenes, description="Lists the scenes in a folder."),
            FunctionTool(send_mail, description="Sends a mail."),
        ]
    )
    made.disable_tool("send_mail")
    return made


async def results(*answers: Any) -> tuple[list[str], Any]:
    """What its calls returned, and the last thing that it said."""
    model = ReplayChatCompletionClient(answers)
    agent = WorkbenchSearchAgent("finder", model, workbench(), handoffs=[Handoff(target="planner")])
    said = (await agent.run(task="What lists scenes?")).messages
    events = [one for one in said if isinstance(one, ToolCallExecutionEvent)]
    return [one.content for event in events for one in event.content], said[-1]


async def test_it_finds_tools_and_reads_about_them_and_hands_over() -> None:
    found, last = await results(
        [call("search_tools", query="list the scenes")],
        [call("get_tool_documentation", name="list_scenes")],
        [call("transfer_to_planner")],
    )
    assert found[0] == "list_scenes: Lists the scenes in a folder."
    assert "folder" in found[1]
    assert "Where to look" in found[1]
    assert isinstance(last, HandoffMessage)


async def test_disabled_tools_are_found_and_said_to_be() -> None:
    found, _ = await results([call("search_tools", query="send mail")], "That one.")
    assert found[0].splitlines()[0] == "send_mail: Sends a mail. (disabled at the moment)"


async def test_nothing_that_fits_is_said() -> None:
    found, _ = await results([call("search_tools", query="zzz")], "None.")
    assert found == ["No tool was found. Try other words."]


async def test_an_unknown_tool_is_an_error_that_it_reads() -> None:
    found, _ = await results([call("get_tool_documentation", name="list_scene")], "Hm.")
    assert "list_scenes" in found[0]


async def test_it_can_not_call_what_it_finds() -> None:
    found, _ = await results([call("list_scenes", folder="a")], "Hm.")
    assert "not found" in found[0]
    assert CALLED == []
