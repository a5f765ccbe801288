"""Tools that come and go."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Annotated

import pytest

from callboard.memory.llm_messages import AssistantMessage, UserMessage
from callboard.tools import DynamicWorkbench, FunctionTool, tool
from callboard.tools.errors import ToolDeclarationError, UnknownToolError

from .test_static import Counter, Steps


@tool
async def get_weather(city: Annotated[str, "name of the city"], days: int = 1) -> str:
    """The weather forecast for a city."""
    return f"sun over {city}"


@tool
async def convert_currency(amount: float, source: str, target: str) -> str:
    """Converts money between currencies such as euros and dollars."""
    return "1"


@tool
async def send_mail(to: str, text: str) -> str:
    """Sends an e-mail."""
    return "sent"


def named(name: str, description: str = "A tool.") -> FunctionTool:
    return FunctionTool(lambda: 1, description, name=name)


def shown(workbench: DynamicWorkbench) -> list[str]:
    return [tool.name for tool in workbench.enabled_tools]


async def test_tools_come_and_go() -> None:
    workbench = DynamicWorkbench([get_weather])
    workbench.add_tool(send_mail, enabled=False)
    assert [tool.name for tool in workbench.tools] == ["get_weather", "send_mail"]
    assert shown(workbench) == ["get_weather"]
    assert [schema["name"] for schema in await workbench.list_tools()] == ["get_weather"]
    workbench.enable_tool("send_mail")
    workbench.enable_tool("send_mail")
    workbench.disable_tool("get_weather")
    assert shown(workbench) == ["send_mail"]
    assert workbench.is_enabled("send_mail")
    assert not workbench.is_enabled("get_weather")
    workbench.remove_tool("send_mail")
    assert shown(workbench) == []
    workbench.remove_all_tools()
    assert workbench.tools == []


async def test_only_enabled_tools_are_called() -> None:
    workbench = DynamicWorkbench([get_weather, send_mail])
    workbench.disable_tool("send_mail")
    assert (await workbench.call_tool("get_weather", {"city": "Oslo"})).to_text() == "sun over Oslo"
    disabled = await workbench.call_tool("send_mail", {"to": "a", "text": "b"})
    assert (disabled.is_error, disabled.to_text()) == (
        True,
        "Tool send_mail is disabled at the moment. Use another one.",
    )
    unknown = await workbench.call_tool("get_wether")
    assert unknown.to_text() == "Tool get_wether not found. Did you mean 'get_weather'?"
    (streamed,) = [item async for item in workbench.call_tool_stream("send_mail")]
    assert streamed.is_error


async def test_streams() -> None:
    workbench = DynamicWorkbench([Steps()])
    *items, result = [item async for item in workbench.call_tool_stream("steps")]
    assert (items, result.to_text()) == (["one"], "done")


async def test_a_call_goes_on_although_its_tool_is_removed() -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        begun.set()
        await release.wait()
        return "done"

    workbench = DynamicWorkbench([FunctionTool(work)])
    calling = asyncio.ensure_future(workbench.call_tool("work"))
    await begun.wait()
    workbench.remove_all_tools()
    release.set()
    assert (await calling).to_text() == "done"


@pytest.mark.parametrize("change", ["remove_tool", "enable_tool", "disable_tool", "is_enabled"])
def test_one_typed_error_for_a_tool_that_is_not_there(change: str) -> None:
    workbench = DynamicWorkbench([get_weather])
    with pytest.raises(UnknownToolError, match="Did you mean 'get_weather'"):
        getattr(workbench, change)("get_wether")


def test_a_removed_tool_can_not_be_enabled() -> None:
    workbench = DynamicWorkbench([get_weather])
    workbench.remove_all_tools()
    with pytest.raises(UnknownToolError):
        workbench.enable_tool("get_weather")


def test_checks_are_the_same_on_every_way_in() -> None:
    workbench = DynamicWorkbench()
    for name in ("class", "été", "x" * 200, "a-b", ""):
        with pytest.raises(ToolDeclarationError):
            workbench.add_tool(SimpleTool(name))
    with pytest.raises(ToolDeclarationError):
        workbench.add_tool(named("a", "x" * 1025))
    with pytest.raises(ToolDeclarationError):
        workbench.add_tool("a")  # type: ignore[arg-type]
    with pytest.raises(ToolDeclarationError):
        DynamicWorkbench([get_weather, get_weather])
    workbench.add_tool(named("a", "x" * 1024))
    with pytest.raises(ToolDeclarationError):
        workbench.add_tool(named("a"), enabled=False)


class SimpleTool(Counter):
    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name


def test_there_is_a_cap() -> None:
    workbench = DynamicWorkbench([named("a"), named("b")], max_tools=3, max_enabled=2)
    with pytest.raises(ToolDeclarationError, match="2 enabled tools"):
        workbench.add_tool(named("c"))
    workbench.add_tool(named("c"), enabled=False)
    with pytest.raises(ToolDeclarationError, match="3 tools in this workbench"):
        workbench.add_tool(named("d"), enabled=False)
    with pytest.raises(ToolDeclarationError):
        workbench.enable_tool("c")
    assert shown(workbench) == ["a", "b"]


def test_tools_are_found_by_what_they_are_for() -> None:
    workbench = DynamicWorkbench([send_mail, convert_currency, get_weather])
    workbench.disable_tool("get_weather")
    assert workbench.get_tool_names_for_query("what is the weather in Paris?") == ["get_weather"]
    assert workbench.get_tool_names_for_query("how many dollars is that") == ["convert_currency"]
    assert workbench.get_tool_names_for_query("xyz") == []
    assert len(workbench.get_tool_names_for_query("mail weather currency", limit=2)) == 2


def test_tools_for_a_conversation_are_enabled_ones() -> None:
    workbench = DynamicWorkbench([named(f"tool_{i}") for i in range(20)] + [get_weather, send_mail])
    messages = [
        UserMessage(content="send a mail", source="user"),
        UserMessage(content=["and the weather forecast?"], source="user"),
        AssistantMessage(content=[], source="a"),
    ]
    assert [tool.name for tool in workbench.get_tools_for_context(messages)] == ["get_weather"]
    workbench.disable_tool("get_weather")
    first = [tool.name for tool in workbench.get_tools_for_context(messages, limit=3)]
    assert first == ["tool_0", "tool_1", "tool_2"]
    assert len(workbench.get_tools_for_context([], limit=5)) == 5
    assert len(workbench.get_tools_for_context([SimpleNamespace(content=3)], limit=5)) == 5
    assert len(workbench.get_tools_for_context(messages, limit=100)) == 21


def test_documentation() -> None:
    workbench = DynamicWorkbench([get_weather])
    assert workbench.get_tool_documentation("get_weather") == (
        "# get_weather\n\nThe weather forecast for a city.\n\nArguments:\n"
        "- `city` (string, required): name of the city\n- `days` (integer, default 1)"
    )
    with pytest.raises(UnknownToolError):
        workbench.get_tool_documentation("nothing")


async def test_the_state_goes_out_and_in() -> None:
    first = DynamicWorkbench([get_weather, Counter()])
    first.disable_tool("get_weather")
    await first.call_tool("count")
    state = json.loads(json.dumps(await first.save_state()))
    second = DynamicWorkbench([Counter(), get_weather, send_mail])
    await second.load_state(state)
    assert shown(second) == ["count", "send_mail"]
    assert (await second.call_tool("count")).to_text() == "2"
    await second.reset()
    assert shown(second) == ["count", "send_mail"]


async def test_a_state_that_does_not_fit_changes_nothing() -> None:
    first = DynamicWorkbench([get_weather, send_mail])
    first.disable_tool("get_weather")
    state = await first.save_state()
    second = DynamicWorkbench([get_weather])
    with pytest.raises(UnknownToolError, match="send_mail"):
        await second.load_state(state)
    assert shown(second) == ["get_weather"]
    for broken in ({"type": "x"}, {**state, "tools": {"get_weather": {"enabled": 1}}}):
        with pytest.raises(ToolDeclarationError):
            await second.load_state(broken)
    tight = DynamicWorkbench(max_enabled=1)
    tight.add_tool(get_weather)
    tight.add_tool(send_mail, enabled=False)
    all_on = await DynamicWorkbench([get_weather, send_mail]).save_state()
    with pytest.raises(ToolDeclarationError):
        await tight.load_state(all_on)
    assert shown(tight) == ["get_weather"]
