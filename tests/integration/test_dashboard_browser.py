"""The dashboard in a real browser: what is read on its pages, and what its buttons do."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest
import pytest_asyncio

from callboard import TopicId
from callboard.teams import TeamClient
from tests.helpers.browser import CHROMIUM, Browser, Page, browser
from tests.helpers.dashboard_shop import HOSTILE, Invoice, app
from tests.helpers.door_processes import worked
from tests.helpers.eventually import eventually
from tests.helpers.servers import ServerProcess

from .test_dashboard import client, dashboard, link_of

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium"),
    pytest.mark.asyncio(loop_scope="module"),
]

TARGET = "tests.helpers.dashboard_shop:app"
PAGES = (
    "/",
    "/runs",
    "/inbox",
    "/agents",
    "/agents/mailer",
    "/agents/mailer/ada",
    "/topics",
    "/workers",
    "/diary",
)
PHONE = 390
DESK = 1400


@pytest.fixture(scope="module")
def where(shared_server: ServerProcess) -> Iterator[list[str]]:
    with worked(TARGET, shared_server.url) as options:
        yield options


@pytest.fixture(scope="module")
def board(where: list[str]) -> Iterator[Any]:
    """The process of a dashboard that has not the code of the shop."""
    with dashboard(where) as (process, _):
        yield process


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium() -> AsyncIterator[Browser]:
    async with browser() as made:
        yield made


class Desk:
    """A browser whose first tab has followed the link, and somebody who begins runs and publishes."""

    def __init__(self, made: Browser, page: Page, address: str, token: str, where: list[str]) -> None:
        self.browser, self.page, self.address, self.token = made, page, address, token
        self._url, self._namespace = where[1], where[3]

    async def begin(self, team: str, task: str) -> str:
        """A run; the path of its page."""
        async with app.running(self._url, namespace=self._namespace, types=[]) as runtime:
            await TeamClient(runtime, team, f"c-{task}").start(task=task)
        with client(self.address, self.token) as http:
            return next(
                f"/runs/{one['id']}" for one in http.get("/latest").json()["runs"] if one["task"] == task
            )

    async def send(self, *invoices: Invoice) -> None:
        async with app.running(self._url, namespace=self._namespace, types=[]) as runtime:
            for invoice in invoices:
                await runtime.publish_message(invoice, TopicId("invoices", "ada"))

    async def tab(self, path: str) -> Page:
        page = await self.browser.page()
        await page.go(self.address + path)
        return page


@pytest_asyncio.fixture(loop_scope="module")
async def desk(chromium: Browser, board: Any, where: list[str]) -> AsyncIterator[Desk]:
    address, token = await link_of(board)
    page = await chromium.page()
    await page.go(f"{address}/#token={token}")
    await page.shows("Needs you")
    await page.shows("desk.researcher")
    yield Desk(chromium, page, address, token, where)
    # Refused by the policy, thrown, or asked of another host: each of them is one too many, whatever was tested.
    faults, hosts = chromium.faults[:], {host.partition(":")[0] for host in chromium.hosts}
    chromium.faults.clear()
    await chromium.close_pages()
    assert faults == []
    assert hosts == {"127.0.0.1"}


async def test_the_link_signs_in_and_the_token_is_gone_from_the_address(desk: Desk) -> None:
    assert await desk.page.run("location.href") == f"{desk.address}/"
    assert await desk.page.run("document.cookie") == ""
    other = await desk.tab("/runs")
    await other.shows("Runs")
    # Without the cookie there is a form, and nothing else.
    await other.ask("Network.clearBrowserCookies")
    await other.ask("Page.reload")
    await other.shows("Sign in")
    assert "desk" not in await other.text()
    desk.browser.faults.clear()  # the console says that there was a 401


async def test_a_run_is_read_while_it_is_written_and_its_question_answered_with_other_arguments(
    desk: Desk,
) -> None:
    path = await desk.begin("desk", "My teapot is broken.")
    await desk.page.go(desk.address + path)
    second = await desk.tab(path)
    await desk.page.shows("May refund be called with")
    await second.shows("May refund be called with")
    # What a model writes is text, whatever it says.
    assert HOSTILE.split("\u202e", maxsplit=1)[0] in await desk.page.text()
    assert "\\u202e" in await desk.page.text()
    assert await desk.page.run("document.querySelectorAll('main img').length") == 0
    assert "owned" not in str(await desk.page.run("document.title"))
    await desk.page.fill("textarea", "8900", "5000")
    await desk.page.click("button", "Yes, call it")
    for page in (desk.page, second):
        await page.shows("50.00 EUR of order 7719 are on their way.")
        await page.shows("completed")
        assert 'yes, with {"order":7719,"cents":5000}' in await page.text()
        assert await page.run("document.querySelectorAll('.question').length") == 0
    # All that somebody did stands in one lane, however often.
    places = "[...document.querySelectorAll('.track .span')].map((one) => one.offsetTop)"
    found = await desk.page.run(places)
    assert len(found) > 3
    assert set(found) <= {0, 1}


async def test_words_are_there_before_their_turn_is_over(desk: Desk) -> None:
    path = await desk.begin("slow", "Slowly.")
    await desk.page.go(desk.address + path)
    await desk.page.shows("One word")
    assert await desk.page.run("document.querySelectorAll('.draft').length") == 1
    assert "at a time" not in await desk.page.text()
    await desk.page.click("button", "Cancel run")
    await desk.page.click(".sure button", "Cancel run")
    await desk.page.shows("cancelled")


async def test_a_class_that_is_not_known_here_is_shown_as_json(desk: Desk) -> None:
    path = await desk.begin("court", "Who broke it?")
    await desk.page.go(desk.address + path)
    await desk.page.shows('"why": "It was the carrier."')


async def test_dead_letters_are_sent_again_and_discarded(desk: Desk) -> None:
    await desk.send(Invoice(to="ada", order=1), Invoice(to="ada", order=2))
    await desk.page.go(f"{desk.address}/inbox")
    await desk.page.shows("2 letters")
    await desk.page.click("button", "show")
    await desk.page.click(".letters button", "Invoice")
    await desk.page.shows('"order": 2')
    assert await desk.page.run("document.querySelectorAll('main img').length") == 0
    await desk.page.click("button", "Send 2 again")

    async def died() -> bool:
        with client(desk.address, desk.token) as http:
            return (
                len({one["last"] for one in http.get("/dead").json()}) == 2
                and "2 letters" in await desk.page.text()
            )

    await eventually(died, 15)  # they have failed once more
    await desk.page.click(".groups button", "Discard")
    await desk.page.shows("2 letters will be gone")
    await desk.page.click(".sure button", "Discard")
    await desk.page.shows("Nothing has failed for good.")


async def test_what_is_paused_on_one_page_is_seen_on_another(desk: Desk) -> None:
    await desk.page.go(f"{desk.address}/agents/packer/ada")
    await desk.page.click("button", "Pause")
    other = await desk.tab("/")
    await other.shows("agent packer/ada")
    await desk.page.shows("Resume")
    await desk.page.click("button", "Resume")
    await eventually(lambda: lacks(other, "agent packer/ada"), 10)


async def test_no_page_is_wider_than_a_telephone_and_leaving_pages_takes_no_connection(desk: Desk) -> None:
    await desk.begin("court", "Is it wide?")
    for width in (DESK, PHONE):
        await desk.page.size(width)
        for path in PAGES:
            # As typed into the address bar: the browser keeps the page that is left, for the way back.
            await desk.page.go(desk.address + path)
            await desk.page.shows("live")
            await eventually(lambda: desk.page.run("!document.querySelector('[aria-busy]')"), 10)
            assert await desk.page.run("document.documentElement.scrollWidth") <= width, path


async def test_pages_are_reached_by_keys_and_by_search(desk: Desk) -> None:
    for key, title in (("r", "Runs"), ("i", "Inbox"), ("d", "Diary"), ("o", "Overview")):
        await desk.page.press("g")
        await desk.page.press(key)
        await eventually(partial(titled, desk.page, title), 10)
        await eventually(partial(desk.page.run, "document.activeElement.id === 'page'"), 10)
    await desk.page.press("/")
    await desk.page.type("packer/ada")
    await desk.page.press("Enter")
    await eventually(lambda: titled(desk.page, "ada"), 10)


async def lacks(page: Page, text: str) -> bool:
    return text not in await page.text()


async def titled(page: Page, title: str) -> bool:
    return bool(await page.run(f"document.querySelector('h1')?.textContent === {json.dumps(title)}"))
