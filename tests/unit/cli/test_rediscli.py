"""Answers as redis-cli prints them."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.broker.redis.client.endpoint import Endpoint
from callboard.cli.commands.server import converse, formatted, raw, redis_cli_command


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"OK", "OK"),
        (b"value", '"value"'),
        (b'a "b" \\ \n\x00\xff', '"a \\"b\\" \\\\ \\n\\x00\\xff"'),
        (3, "(integer) 3"),
        (None, "(nil)"),
        ([], "(empty array)"),
        ([b"a", 1, None], '1) "a"\n2) (integer) 1\n3) (nil)'),
        ([[b"1-1", [b"f", b"v"]]], '1) 1) "1-1"\n   2) 1) "f"\n      2) "v"'),
        ([[], [b"a"]], '1) (empty array)\n2) 1) "a"'),
        (ValueError("ERR no"), "(error) ERR no"),
    ],
)
def test_answers_for_people(answer: Any, text: str) -> None:
    assert formatted(answer) == text


def test_numbers_of_long_arrays_are_aligned() -> None:
    lines = formatted([b"x"] * 10).split("\n")
    assert lines[0] == ' 1) "x"'
    assert lines[9] == '10) "x"'


def test_answers_for_programs() -> None:
    assert raw([b"a", [b"\xff", 2], None]) == b"a\n\xff\n2\n"
    assert raw(b"value") == b"value"


def test_a_conversation() -> None:
    called: list[list[str]] = []
    written: list[str] = []

    def call(words: list[str]) -> Any:
        called.append(words)
        return b"PONG"

    converse(call, ["PING\n", "", "SET 'a b' 1", '"', "QUIT", "PING"], written.append)
    assert called == [["PING"], ["SET", "a b", "1"]]
    assert written == ["PONG", "PONG", "Invalid argument(s)"]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("unix:///run/r.sock", ["-s", "/run/r.sock"]),
        ("redis://h:7000/2", ["-h", "h", "-p", "7000", "-n", "2"]),
        ("rediss://u:p@h", ["-h", "h", "-p", "6379", "--tls", "--user", "u"]),
    ],
)
def test_the_command_of_redis_cli(url: str, words: list[str]) -> None:
    command, secret = redis_cli_command("redis-cli", Endpoint.parse(url), ["PING"])
    assert command == ["redis-cli", *words, "PING"]
    assert secret == ({"REDISCLI_AUTH": "p"} if "@" in url else {})
