from __future__ import annotations

import os

from tests.helpers.screen import terminal


def test_a_read_may_end_within_a_character_and_within_a_code() -> None:
    with terminal(40) as made:
        for byte in "\x1b[2Jné".encode():
            os.write(made.theirs, bytes([byte]))
            made.read()
        assert made.read() == "né"
