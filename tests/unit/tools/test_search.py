"""Searches among tools, by words and by meaning."""

from __future__ import annotations

import pytest

from callboard.memory import HashingEmbedder, quick_embedder
from callboard.memory.llm_messages import UserMessage
from callboard.tools import DynamicWorkbench, FunctionTool
from callboard.tools.ranking import joined, words_of

from . import public_services
from .public_services import QUESTIONS, missed


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


def test_by_words_alone() -> None:
    """They share a word with their tool in half of the cases; more needs an embedder."""
    workbench = DynamicWorkbench(public_services.TOOLS)
    found = {question: workbench.get_tool_names_for_query(question) for question in QUESTIONS}
    assert len(missed(found)) <= 9, missed(found)
    first = [question for question, name in QUESTIONS.items() if found[question][:1] == [name]]
    assert len(first) >= 8, first


async def test_without_an_embedder_search_goes_by_words() -> None:
    workbench = DynamicWorkbench(public_services.TOOLS)
    for question in QUESTIONS:
        assert await workbench.search(question) == workbench.get_tool_names_for_query(question)
    assert await workbench.search("xyzzy") == []


@pytest.mark.slow
async def test_by_meaning() -> None:
    workbench = DynamicWorkbench(public_services.TOOLS, embedder=quick_embedder())
    found = {question: await workbench.search(question) for question in QUESTIONS}
    assert len(missed(found)) <= 2, missed(found)
    first = [question for question, name in QUESTIONS.items() if found[question][0] == name]
    assert len(first) >= 9, first
    # No word in common.
    workbench = DynamicWorkbench(TOOLS, embedder=quick_embedder())
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
     "remind reminder reminders", "price prices pricing", "search searches searching", "ship shipping ships"],
)  # fmt: skip
def test_forms_of_a_word_have_one_stem(forms: str) -> None:
    assert len(set(words_of(forms))) == 1


def test_a_longer_word_with_another_stem_is_found_too() -> None:
    tools = [FunctionTool(lambda: 1, "Tracks a shipment.", name="track"), TOOLS[0]]
    assert DynamicWorkbench(tools).get_tool_names_for_query("Did it ship?") == ["track"]


def test_names_are_split() -> None:
    split = ("read", "html", "file", "get", "user", "id", "e", "mail")
    assert list(words_of("readHTMLFile get_user_ID e-mail")) == list(words_of(" ".join(split)))
    assert [word[:4] for word in words_of("readHTMLFile get_user_ID e-mail")] == [word[:4] for word in split]


def test_rankings_are_joined() -> None:
    assert joined(["a", "b", "c"], ["b"]) == ["b", "a", "c"]
    assert joined() == []
