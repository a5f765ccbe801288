"""What the log says of a handler that failed: the first line has to be enough."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import shlex

import pytest

from callboard import App, MessageContext, RoutedAgent, TopicId, event
from callboard.broker import BrokerSettings
from callboard.broker.envelope import Envelope
from callboard.runtime.reports import FailureLog, place_of

HERE = "tests/unit/runtime/test_failures.py"
ENVELOPE = Envelope("m1", "Visit", "ada", None, 0, b"{}")


def raised(function: object, *arguments: object) -> BaseException:
    try:
        function(*arguments)  # type: ignore[operator]
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_the_place_is_the_innermost_line_of_the_users_code() -> None:
    def handler() -> None:
        json.loads("{")

    assert re.fullmatch(rf"{HERE}:\d+ in handler", place_of(raised(handler)))


def test_the_place_of_a_wrapped_error_is_that_of_its_cause() -> None:
    def handler() -> None:
        raise KeyError("x")

    outer = ValueError("wrapped")
    outer.__cause__ = raised(handler)
    assert place_of(outer).endswith("in handler")


def test_the_place_in_a_group_is_that_of_its_first_part() -> None:
    async def inner() -> None:
        raise KeyError("x")

    async def handler() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(inner())

    assert place_of(raised(asyncio.run, handler())).endswith("in inner")


def test_an_error_without_a_line_of_the_user_has_no_place() -> None:
    assert place_of(ValueError("made, never raised")) == ""
    error = ValueError("its own cause")
    error.__cause__ = error
    assert place_of(error) == ""


def test_a_long_text_is_one_short_line(caplog: pytest.LogCaptureFixture) -> None:
    FailureLog("shop", with_texts=True).buried("clerk", ENVELOPE, ValueError("a\nb " * 100))
    (line,) = caplog.messages
    assert line.startswith("clerk/ada failed on Visit m1: ValueError: a b a b")
    assert "...; it is a dead letter now: callboard dead show --namespace shop clerk/m1" in line
    assert len(line) < 350


def test_keys_and_texts_can_not_begin_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    envelope = Envelope("m\x1b[1A", "Visit", "ada\nERROR: forged\x1b[31m", None, 0, b"{}")
    FailureLog("shop", with_texts=True).buried("clerk", envelope, ValueError("\x1b[2J"))
    (record,) = caplog.records
    assert record.getMessage().isprintable()
    assert "clerk/ada\\u000aERROR: forged\\u001b[31m failed on Visit m\\u001b[1A" in record.getMessage()


def test_an_id_can_not_be_run_with_the_command_that_the_log_offers(caplog: pytest.LogCaptureFixture) -> None:
    envelope = Envelope("m1; touch PWNED #", "Visit", "ada", None, 0, b"{}")
    FailureLog("shop", with_texts=True).buried("clerk", envelope, ValueError())
    offered = caplog.messages[0].split("it is a dead letter now: ")[1]
    assert shlex.split(offered)[-1] == "clerk/m1; touch PWNED #"


def test_what_nobody_knows_here_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    log = FailureLog("shop", with_texts=True)
    for number in (1, 2):
        log.unknown("clerk", Envelope(f"m{number}", "Vist", "ada", None, 0, b"{}"))
    log.unknown("clerk", Envelope("m3", "Bil", "ada", None, 0, b"{}"))
    first, second = (record.getMessage() for record in caplog.records)
    assert first == (
        "clerk/ada can't read Vist m1: no handler here has that type. It waits for a process that knows it, or is a "
        "dead letter now if none ever did: callboard dead list --namespace shop clerk"
    )
    assert "can't read Bil m3" in second


def test_texts_can_be_kept_out_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    log = FailureLog("shop", with_texts=False)
    log.retried("clerk", ENVELOPE, 1, 0.1, ValueError("secret"))
    assert caplog.messages == ["clerk/ada failed on Visit m1 (attempt 1): ValueError; trying again in 0.1 s"]


def test_a_traceback_is_logged_at_debug_only(caplog: pytest.LogCaptureFixture) -> None:
    log = FailureLog("shop", with_texts=True)
    error = raised(json.loads, "{")
    with caplog.at_level(logging.DEBUG, "callboard.actors"):
        log.answered("clerk", ENVELOPE, error)
    assert [record.levelname for record in caplog.records] == ["INFO", "DEBUG"]
    assert "Traceback" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING, "callboard.actors"):
        log.buried("clerk", ENVELOPE, error)
    assert "Traceback" not in caplog.text


async def test_a_handler_that_fails_is_logged_with_its_line_and_its_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = App("failing")

    @app.agent("clerk", topics=["work"], max_attempts=2)
    class Clerk(RoutedAgent):
        @event
        async def on_note(self, message: str, ctx: MessageContext) -> None:
            raise LookupError(f"no {message}")

    settings = BrokerSettings(retry_base=0.01, retry_cap=0.02)
    async with app.running("memory://failing", settings=settings) as runtime:
        await runtime.publish_message("unicorn", TopicId("work", "ada"), message_id="order-1")
        await runtime.stop_when_idle()
    first, last = caplog.messages
    where = rf"LookupError: no unicorn at {HERE}:\d+ in on_note"
    assert re.fullmatch(
        rf"clerk/ada failed on \S+ order-1 \(attempt 1\): {where}; trying again in \d.\d s", first
    )
    letter = "callboard dead show --namespace failing clerk/order-1"
    assert re.fullmatch(rf"clerk/ada failed on \S+ order-1: {where}; it is a dead letter now: {letter}", last)
