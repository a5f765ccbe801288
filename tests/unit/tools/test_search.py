"""Thirteen questions as people ask them, over fifteen tools: the right one is among the first three."""

from __future__ import annotations

import pytest

from callboard.memory import HashingEmbedder, quick_embedder
from callboard.memory.llm_messages import UserMessage
from callboard.tools import DynamicWorkbench, FunctionTool
from callboard.tools.ranking import joined, stem, words_of


def get_weather(city: str, days: int = 1) -> None:
    """Returns the weather forecast for a city.

    Args:
        city: Name of the city.
        days: How many days ahead.
    """


def convert_currency(amount: float, source: str, target: str) -> None:
    """Converts an amount of money between currencies."""


def send_email(to: str, subject: str, body: str) -> None:
    """Sends an e-mail to a recipient."""


def search_web(query: str) -> None:
    """Searches the web and returns pages."""


def read_file(path: str) -> None:
    """Reads a text file from disk."""


def write_file(path: str, content: str) -> None:
    """Writes text to a file on disk."""


def create_calendar_event(title: str, start: str, end: str, attendees: list[str]) -> None:
    """Creates an event in the calendar."""


def list_calendar_events(day: str) -> None:
    """Lists the events of a day in the calendar."""


def translate_text(text: str, target_language: str) -> None:
    """Translates text into another language."""


def get_stock_price(symbol: str) -> None:
    """Returns the current price of a stock."""


def run_sql_query(sql: str) -> None:
    """Runs an SQL query on the database of customers and orders."""


def resize_image(path: str, width: int, height: int) -> None:
    """Changes the size of an image."""


def find_route(origin: str, destination: str, mode: str = "car") -> None:
    """Finds the route between two places, with distance and duration."""


def set_reminder(text: str, when: str) -> None:
    """Sets a reminder for a later time."""


def calculate(expression: str) -> None:
    """Evaluates an arithmetic expression."""


TOOLS = [
    FunctionTool(function)
    for function in (
        get_weather, convert_currency, send_email, search_web, read_file, write_file, create_calendar_event,
        list_calendar_events, translate_text, get_stock_price, run_sql_query, resize_image, find_route, set_reminder,
        calculate,
    )
]  # fmt: skip
QUESTIONS = {
    "Will it rain in Bergen tomorrow?": "get_weather",
    "How many dollars are 20 euros?": "convert_currency",
    "Let Anna know by mail that I'm late": "send_email",
    "What does the internet say about Redis streams?": "search_web",
    "Show me what is in notes.txt": "read_file",
    "Save this list as shopping.txt": "write_file",
    "Book a meeting with Bob on Friday at ten": "create_calendar_event",
    "What do I have on my schedule today?": "list_calendar_events",
    "How do you say good morning in Japanese?": "translate_text",
    "How is the share of Apple doing?": "get_stock_price",
    "Which customers ordered more than ten times last year?": "run_sql_query",
    "Make this photo smaller": "resize_image",
    "How long does it take to drive from Oslo to Trondheim?": "find_route",
}


def missed(found: dict[str, list[str]]) -> list[str]:
    return [question for question, name in QUESTIONS.items() if name not in found[question][:3]]


def test_by_words_alone() -> None:
    workbench = DynamicWorkbench(TOOLS)
    found = {question: workbench.get_tool_names_for_query(question) for question in QUESTIONS}
    assert len(missed(found)) <= 2, missed(found)


async def test_without_an_embedder_search_goes_by_words() -> None:
    workbench = DynamicWorkbench(TOOLS)
    for question in QUESTIONS:
        assert await workbench.search(question) == workbench.get_tool_names_for_query(question)
    assert await workbench.search("xyzzy") == []


@pytest.mark.slow
async def test_by_meaning() -> None:
    workbench = DynamicWorkbench(TOOLS, embedder=quick_embedder())
    found = {question: await workbench.search(question) for question in QUESTIONS}
    assert missed(found) == []
    first = [question for question, name in QUESTIONS.items() if found[question][0] == name]
    assert len(first) >= 10, first
    # No word in common.
    assert "set_reminder" in (await workbench.search("Don't let me miss the train"))[:3]


async def test_enabled_tools_that_fit_a_conversation() -> None:
    for embedder in (None, HashingEmbedder()):
        workbench = DynamicWorkbench(TOOLS, embedder=embedder)
        workbench.disable_tool("get_weather")
        messages = [UserMessage(content="Show me the weather forecast in the file", source="user")]
        found = [tool.name for tool in await workbench.search_for_context(messages, limit=3)]
        assert "read_file" in found
        assert "get_weather" not in found
        assert len(await workbench.search_for_context([], limit=3)) == 3
        assert len(await workbench.search_for_context(messages, limit=14)) == 14


async def test_search_knows_what_came_and_went() -> None:
    for embedder in (None, HashingEmbedder()):
        workbench = DynamicWorkbench(TOOLS[:1], embedder=embedder)
        assert await workbench.search("mail") == ([] if embedder is None else ["get_weather"])
        workbench.add_tool(TOOLS[2])
        assert (await workbench.search("mail"))[0] == "send_email"
        workbench.remove_tool("send_email")
        assert "send_email" not in await workbench.search("mail")
        workbench.add_tool(FunctionTool(lambda: 1, "Plays a song.", name="send_email"))
        assert (await workbench.search("song"))[0] == "send_email"
        workbench.remove_all_tools()
        assert await workbench.search("song") == []


@pytest.mark.parametrize(
    "forms",
    ["translate translates translation translator translating", "run runs running", "currency currencies",
     "remind reminder reminders", "price prices pricing", "search searches searching", "ship shipping shipment"],
)  # fmt: skip
def test_forms_of_a_word_have_one_stem(forms: str) -> None:
    assert len({stem(form) for form in forms.split()}) == 1


def test_names_are_split() -> None:
    assert list(words_of("readHTMLFile get_user_ID e-mail")) == [
        stem(w) for w in ("read", "html", "file", "user", "id", "email")
    ]


def test_rankings_are_joined() -> None:
    assert joined(["a", "b", "c"], ["b"]) == ["b", "a", "c"]
    assert joined() == []
