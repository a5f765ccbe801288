"""The log of a worker."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator

import pytest

from callboard.process.logs import HandlerFilter, JsonFormatter, keep_log


@contextlib.contextmanager
def bare_root() -> Iterator[logging.Logger]:
    """The root logger without handlers, also without those of pytest, which come when a test is called."""
    logger, library = logging.getLogger(), logging.getLogger("httpx")
    handlers, level, loud = logger.handlers[:], logger.level, library.level
    logger.handlers[:] = []
    try:
        yield logger
    finally:
        logger.handlers[:] = handlers
        logger.setLevel(level)
        library.setLevel(loud)


def test_a_line_has_its_time_its_level_and_its_logger(capsys: pytest.CaptureFixture[str]) -> None:
    with bare_root():
        keep_log("INFO")
        logging.getLogger("desk").info("a mail came")
        logging.getLogger("desk").debug("its text")
        logging.getLogger("httpx").info("POST")
    (line,) = capsys.readouterr().err.splitlines()
    day, clock, rest = line.split(" ", 2)
    assert len(day.split("-")) == len(clock.split(":")) == 3
    assert rest == "INFO desk: a mail came"


def test_what_the_application_has_set_up_stays() -> None:
    own = logging.NullHandler()
    with bare_root() as root:
        root.addHandler(own)
        root.setLevel(logging.ERROR)
        keep_log("INFO")
        assert (root.handlers, root.level) == ([own], logging.ERROR)


@pytest.mark.parametrize("text", ["a\nb", "\ud800", "\u202e", "{}", "%s"], ids=range(5))
def test_as_json_every_record_is_one_line(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with bare_root():
        keep_log("INFO", as_json=True, namespace="shop")
        try:
            raise ValueError(text)
        except ValueError:
            logging.getLogger("desk").exception(text)
    (line,) = capsys.readouterr().err.splitlines()
    read = json.loads(line)
    assert (read["message"], read["level"], read["namespace"]) == (text, "ERROR", "shop")
    assert read["error"].startswith("Traceback")


def test_outside_of_a_handler_nothing_is_said_of_one() -> None:
    record = logging.makeLogRecord({"name": "desk", "msg": "hello"})
    assert HandlerFilter().filter(record)
    assert (record.agent, record.message_id, record.run, record.where) == ("", "", "", "")  # type: ignore[attr-defined]
    assert "agent" not in json.loads(JsonFormatter().format(record))
