"""The log of `callboard worker`."""

from __future__ import annotations

import json
import re

from .commands import Running, ShopFolder

LOGS = """
    @event
    async def on_job(self, message: Job, ctx: MessageContext) -> None:
        logging.getLogger("shop").info("takes %s", message.name)
        logging.getLogger("shop").debug("its times: %d", message.times)
"""


def changed(shop: ShopFolder, top: str = "") -> None:
    """Has the clerk of shop.py write to the log."""
    app = shop.folder / "shop.py"
    text = app.read_text(encoding="utf-8")
    begin, end = text.index("\n    @event"), text.index("\n    @rpc")
    app.write_text(f"import logging\n{top}\n{text[:begin]}{LOGS}{text[end:]}", encoding="utf-8")


def line_of(running: Running, text: str) -> str:
    """The line of the log that has this text."""
    running.shows(text)
    return next(line for line in running.text.splitlines() if text in line)


def publish(shop: ShopFolder) -> None:
    """One job, whose message has the id job-1."""
    shop.out("publish", "shop:app", "jobs", "Job", "name=one", "--key", "ada", "--id", "job-1")


def test_the_application_is_heard_with_the_time_and_its_agent(shop: ShopFolder) -> None:
    changed(shop)
    with shop.started("worker", "shop:app") as worker:
        publish(shop)
        line = line_of(worker, "takes one")
        assert re.fullmatch(r"[-\d]{10} [:\d]{8},\d{3} INFO shop: takes one \[clerk/ada, job-1\]", line)
        assert "its times" not in worker.text


def test_a_setting_says_how_much_is_shown_and_as_what(shop: ShopFolder) -> None:
    changed(shop)
    shop.environ |= {"CALLBOARD_LOG_LEVEL": "debug", "CALLBOARD_LOG_JSON": "1"}
    with shop.started("worker", "shop:app") as worker:
        publish(shop)
        read = json.loads(line_of(worker, "its times: 1"))
    assert (read["level"], read["logger"], read["namespace"]) == ("DEBUG", "shop", "shop")
    assert (read["agent"], read["message_id"]) == ("clerk/ada", "job-1")


def test_the_applications_own_logging_stays(shop: ShopFolder) -> None:
    changed(shop, "logging.basicConfig(level='DEBUG', format='OWN %(message)s')")
    with shop.started("up", "shop:app") as up:
        publish(shop)
        assert line_of(up, "its times").endswith("| OWN its times: 1")
        assert line_of(up, "takes one").endswith("| OWN takes one")
    assert shop.run("worker", "shop:app", "--help").returncode == 0


def test_a_level_that_there_is_not_is_refused(shop: ShopFolder) -> None:
    shop.environ["CALLBOARD_LOG_LEVEL"] = "loud"
    done = shop.run("worker", "shop:app")
    assert done.returncode == 2
    assert "CALLBOARD_LOG_LEVEL='LOUD' has to be" in done.stderr
