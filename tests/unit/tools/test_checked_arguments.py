"""What a rule and a person are asked about is what runs, however the model wrote it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel

from callboard.ag2 import AutoPattern, a_initiate_group_chat
from callboard.core.people import Question, asking_by
from callboard.groupchat import ConversableAgent
from callboard.groupchat.replies import executables, execute
from callboard.memory.llm_messages import FunctionCall
from callboard.models import ReplayChatCompletionClient
from callboard.runs.team import call, own_functions
from callboard.tools import (
    DynamicWorkbench,
    FunctionTool,
    StaticWorkbench,
    ToolOverride,
    ToolResult,
    run_tools,
)
from callboard.tools.schema import ToolSchema
from callboard.tools.workbench import Workbench, texts


class Mode(Enum):
    SOFT = "soft"
    HARD = "hard"


class Order(BaseModel):
    count: int


class Desk:
    """Tools that write down what they ran with, and a person who says yes."""

    def __init__(self, answer: Any = "yes") -> None:
        self.ran: list[Any] = []
        self.asked: list[Any] = []
        self.answer = answer

    def ask(self, question: Question) -> Any:
        self.asked.append(question.details["arguments"])
        return self.answer

    def delete(self, force: bool) -> str:
        self.ran.append(force)
        return "done"

    def buy(self, count: int = 10) -> str:
        self.ran.append(count)
        return "done"

    def order(self, order: Order) -> str:
        self.ran.append(order.count)
        return "done"

    def switch(self, mode: Mode) -> str:
        self.ran.append(mode)
        return "done"

    def pay(self, amount: Decimal) -> str:
        self.ran.append(amount)
        return "done"

    def spend(self, amount: float) -> str:
        self.ran.append(amount)
        return "done"

    def euros(self, cents: Annotated[int, AfterValidator(lambda cents: cents * 100)]) -> str:
        self.ran.append(cents)
        return "done"

    def look(self, days: int = None) -> str:  # type: ignore[assignment]  # noqa: RUF013 - many are written so
        self.ran.append(days)
        return "done"


async def run(workbench: Workbench, name: str, desk: Desk, *written: str, **options: Any) -> list[str]:
    calls = [FunctionCall(str(number), text, name) for number, text in enumerate(written)]
    with asking_by(desk.ask):
        return [result.content for result in await run_tools(calls, workbench, **options)]


Rule = Callable[[Mapping[str, Any]], bool]
FORCE = ('{"force": "yes"}', '{"force": 1}', '{"force": "on"}', '{"force": "TRUE"}', '{"force": true}')
SAME = [
    *(("delete", lambda a: a.get("force") is True, text, {"force": True}, True) for text in FORCE),
    ("buy", lambda a: a["count"] > 5, '{"count": "10"}', {"count": 10}, 10),
    ("buy", lambda a: a["count"] > 5, '{"count": 10.0}', {"count": 10}, 10),
    ("buy", lambda a: a["count"] > 5, "{}", {"count": 10}, 10),
    ("order", lambda a: a["order"]["count"] > 5, '{"order": {"count": "6"}}', {"order": {"count": 6}}, 6),
    ("switch", lambda a: a["mode"] == "hard", '{"mode": "hard"}', {"mode": "hard"}, Mode.HARD),
    ("pay", lambda a: a["amount"] > 2000, '{"amount": "2500"}', {"amount": 2500}, Decimal(2500)),
    ("pay", lambda a: a["amount"] > 2000, '{"amount": 2500.5}', {"amount": 2500.5}, Decimal("2500.5")),
    ("spend", lambda a: a["amount"] > 2000, '{"amount": "1e4"}', {"amount": 10000.0}, 10000.0),
    ("euros", lambda a: a["cents"] > 500, '{"cents": 7}', {"cents": 700}, 700),
    ("look", lambda a: a["days"] is None, "{}", {"days": None}, None),
]


@pytest.mark.parametrize(("name", "rule", "written", "shown", "ran"), SAME)
@pytest.mark.parametrize("way", ["tool", "renamed", "dynamic", "told"])
async def test_the_rule_and_the_person_see_what_runs(
    name: str, rule: Rule, written: str, shown: Any, ran: Any, way: str
) -> None:
    desk, options = Desk(), {}
    tool = FunctionTool(getattr(desk, name), needs_approval=False if way == "told" else rule)
    workbench: Workbench = StaticWorkbench([tool])
    if way == "renamed":
        workbench, name = StaticWorkbench([tool], {name: ToolOverride(name="other")}), "other"
    elif way == "dynamic":
        workbench = DynamicWorkbench([tool])
    elif way == "told":
        options = {"needs_approval": {name: rule}}
    assert await run(workbench, name, desk, written, **options) == ["done"]
    assert desk.asked == [shown]
    assert desk.ran == [ran]


@pytest.mark.parametrize("way", ["run", "executed", "pattern"])
@pytest.mark.parametrize(("name", "rule", "written", "shown", "ran"), SAME)
async def test_the_same_for_agents_that_execute_functions(
    name: str, rule: Rule, written: str, shown: Any, ran: Any, way: str
) -> None:
    desk = Desk()
    tool = FunctionTool(getattr(desk, name), needs_approval=rule)
    agent = ConversableAgent("one", llm_config=ReplayChatCompletionClient([]), functions=[tool])
    with asking_by(desk.ask):
        if way == "run":
            assert not (await call(own_functions(agent, {}), name, written)).is_error
        elif way == "executed":
            assert (await execute(executables({name: tool}), name, written))[0]
        else:
            await _in_a_pattern(tool, written)
    assert desk.asked == [shown]
    assert desk.ran == [ran]


async def _in_a_pattern(tool: FunctionTool, written: str) -> None:
    model = ReplayChatCompletionClient([[FunctionCall("1", written, tool.name)], "TERMINATE"])
    agent = ConversableAgent("one", llm_config=model, functions=[tool])
    pattern = AutoPattern(initial_agent=agent, agents=[agent], group_manager_args={"llm_config": model})

    await a_initiate_group_chat(pattern=pattern, messages="go", max_rounds=3)


@pytest.mark.parametrize("way", ["offered", "executed"])
async def test_an_agent_runs_nothing_that_a_person_forbids(way: str) -> None:
    desk = Desk("no: not today")
    tool = FunctionTool(desk.buy, needs_approval=True)
    agent = ConversableAgent("one", llm_config=ReplayChatCompletionClient([]))
    if way == "offered":
        agent.functions.offer(tool)
    else:
        agent.register_function({"buy": tool})
    with asking_by(desk.ask):
        called = await call(own_functions(agent, {}), "buy", '{"count": 7}')
    assert called.is_error
    assert "not today" in called.text
    assert (await call(own_functions(agent, {}), "buy", '{"count": 7}')).is_error  # nobody to ask
    assert desk.ran == []


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ('{"amount": NaN}', "NaN"),
        ('{"amount": Infinity}', "Infinity"),
        ('{"amount": -Infinity}', "Infinity"),
        ('{"amount": 1e999}', "1e999"),
        ('{"amount": "NaN"}', "finite"),
        ('{"amount": "inf"}', "finite"),
        ('{"amount": 1, "amount": 5000}', "twice"),
        ('{"amount": 1, "am\\u006funt": 5000}', "twice"),
    ],
)
@pytest.mark.parametrize("name", ["spend", "pay"])
@pytest.mark.parametrize("needs", [False, True])
async def test_what_json_has_not_is_refused(written: str, word: str, name: str, needs: bool) -> None:
    desk = Desk()
    tool = FunctionTool(getattr(desk, name), needs_approval=needs)
    (said,) = await run(StaticWorkbench([tool]), name, desk, written)
    assert word in said
    is_done, _ = await execute(executables({name: tool}), name, written)
    assert not is_done
    assert (desk.asked, desk.ran) == ([], [])


async def test_what_does_not_fit_is_asked_of_nobody() -> None:
    desk = Desk()
    (said,) = await run(
        StaticWorkbench([FunctionTool(desk.buy, needs_approval=True)]), "buy", desk, '{"count": "x"}'
    )
    assert "count" in said
    assert (desk.asked, desk.ran) == ([], [])


async def test_what_a_person_writes_is_checked_once() -> None:
    desk = Desk('{"cents": 3}')
    workbench = StaticWorkbench([FunctionTool(desk.euros, needs_approval=True)])
    assert await run(workbench, "euros", desk, '{"cents": 7}') == ["done"]
    assert desk.ran == [300]


class Elsewhere(Workbench):
    """Knows a schema only, as an MCP server's workbench; what it is given goes out as it is."""

    def __init__(self) -> None:
        self.sent: list[Mapping[str, Any] | None] = []

    async def list_tools(self) -> list[ToolSchema]:
        properties: Any = {"force": {"type": "boolean"}, "count": {"type": "integer", "default": 10}}
        return [
            ToolSchema(name="delete", description="", parameters={"type": "object", "properties": properties})
        ]

    async def call_tool(
        self, name: str, arguments: Any = None, cancellation_token: Any = None, call_id: str | None = None
    ) -> ToolResult:
        self.sent.append(arguments)
        return ToolResult(name=name, result=list(texts("done")))


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ('{"force": "yes"}', {"force": True, "count": 10}),
        ('{"force": 1, "count": "7"}', {"force": True, "count": 7}),
    ],
)
async def test_a_tool_elsewhere_gets_what_was_shown(written: str, sent: Any) -> None:
    desk, workbench = Desk(), Elsewhere()
    rules = {"delete": lambda a: a.get("force") is True}
    assert await run(workbench, "delete", desk, written, needs_approval=rules) == ["done"]
    assert desk.asked == workbench.sent == [sent]
