from __future__ import annotations

import json
import subprocess

import pytest

from callboard.foundation.texts import one_line, printable, shell_line


def test_control_characters_can_not_move_a_terminals_cursor() -> None:
    assert one_line("ada\n\x1b[31m\x9b1A\x7f\u2028") == "ada\\u000a\\u001b[31m\\u009b1A\\u007f\\u2028"
    assert printable("two\n\tlines\r\x1b[2J") == "two\n\tlines\\u000d\\u001b[2J"


def test_nothing_is_shown_in_another_order_than_it_has() -> None:
    """With these marks `100` could be shown as `001`, and a person would allow another call than the one asked for."""
    assert one_line("pay \u202e001\u2066") == printable("pay \u202e001\u2066") == "pay \\u202e001\\u2066"


@pytest.mark.parametrize("hidden", "\u200e\u200f\u061c\u200b\ufeff\u00ad\u2060\U000e0041\ud800")
def test_no_character_is_hidden(hidden: str) -> None:
    """Two names that look alike would be taken for one, and half of a pair can't be printed at all."""
    shown = json.dumps(hidden)[1:-1]
    assert one_line(f"a{hidden}b") == printable(f"a{hidden}b") == f"a{shown}b"


def test_what_can_be_shown_stays() -> None:
    text = "user:42 ü/☃ 家 \U0001f469\u200d\U0001f680 \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"  # joined letters
    assert one_line(text) == printable(text) == text


def test_json_stays_the_same_json() -> None:
    value = {"text": "a\x1b\x7f\x9b\u2028\n"}
    assert json.loads(printable(json.dumps(value, ensure_ascii=False, indent=2))) == value


HOSTILE = [
    "x; touch PWNED #",
    "$(touch PWNED)",
    "`touch PWNED`",
    "it's",
    "a && touch PWNED",
    "!!",
    "*",
    "",
    "ü",
    "-n",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_pasted_into_a_shell_is_one_word_whatever_it_holds(name: str) -> None:
    done = subprocess.run(
        ["sh", "-c", shell_line("printf", "%s|", "resume", name, "--now")], capture_output=True, check=True
    )
    assert done.stdout.decode() == f"resume|{name}|--now|"


HIDDEN = ["a\nb", "a\x1b[2J", "\u202e7", "\x077", "it's\t\\n", "\u200bü", "\udcff", "\U000e0041"]


@pytest.mark.parametrize("name", HIDDEN)
def test_what_is_pasted_is_one_line_that_can_be_seen_and_names_the_same(name: str) -> None:
    line = shell_line("printf", "%s", name)
    assert line.isprintable()
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=True)
    assert done.stdout == name.encode("utf-8", "surrogateescape")
