"""Unit tests of the sentence with which a command fails."""

from __future__ import annotations

import pytest

from callboard.cli.exits import sentence_of

NOTE = "raised while the resource 'pool' was opened"


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ValueError("no host"), f"unexpected ValueError: no host, {NOTE} (--debug shows where)"),
        (ConnectionRefusedError(111, "Connection refused"), f"Connection refused, {NOTE}"),
        (FileNotFoundError(2, "No such file", "orders.db"), f"No such file: orders.db, {NOTE}"),
    ],
)
def test_the_notes_of_an_error_are_told(error: Exception, sentence: str) -> None:
    error.add_note(NOTE)

    assert sentence_of(error) == sentence
