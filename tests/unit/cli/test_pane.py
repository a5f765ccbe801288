"""Lines at the bottom of a terminal: on a real one, whatever happens to its width."""

from __future__ import annotations

import io
import os

import pytest

from callboard.cli.fleet import LiveBoard, Pane, Row, table
from callboard.process.supervisor import Child, ProcessPlan
from tests.helpers.screen import Terminal, terminal

ROWS = [
    Row("counter", 2, 2, 1293, 100, 1_234_567, 0, 3, 1845.5),
    Row("memory-of-the-reviewer", 0, 1, None, 0, 17, 12, 12, 0.0),
]


def board_on(made: Terminal) -> LiveBoard:
    return LiveBoard(Pane(made.stream))


@pytest.mark.parametrize("columns", [120, 80, 60, 40])
def test_a_table_fits_and_cuts_no_word(columns: int) -> None:
    lines = table(ROWS, columns)
    with terminal(columns) as made:
        board = board_on(made)
        for _ in range(3):
            board.show(ROWS)
        text = made.read()
    assert text.count("TYPE") == 1
    assert "counter" in text
    assert "memory-of-the-reviewer" in text
    assert "1,293" in text
    assert len(text.splitlines()) == len(lines)
    words = {"TYPE", "PROCESSES", "WAITING", "RUNNING", "DONE", "RATE", "DEAD", "NOW", "EVER"}
    assert set(text.splitlines()[0].split()) <= words


def test_a_very_narrow_terminal_has_the_rows_below_each_other() -> None:
    assert table(ROWS, 30)[:3] == ["counter", "  1293 waiting", "  100 running"]


def test_what_goes_first_is_what_matters_least() -> None:
    def header(columns: int) -> str:
        with terminal(columns) as made:
            board_on(made).show(ROWS)
            return " ".join(made.read().splitlines()[0].split())

    assert header(120) == "TYPE PROCESSES WAITING RUNNING DONE RATE DEAD NOW DEAD EVER"
    assert header(60) == "TYPE WAITING RUNNING DEAD NOW"
    assert header(42) == "TYPE WAITING RUNNING"


@pytest.mark.parametrize("reflows", [True, False])
@pytest.mark.parametrize(("before", "after"), [(120, 60), (60, 120), (80, 40), (40, 41)])
def test_a_resize_leaves_nothing_of_the_old_table(before: int, after: int, reflows: bool) -> None:
    child = Child(ProcessPlan(name="counter", types=("counter",), command=()))
    with terminal(before, reflows=reflows) as made:
        board = board_on(made)
        board.notice("begins")
        board.show(ROWS)
        board.output(child, "works")
        made.resize(after)
        board.show(ROWS)
        board.output(child, "goes on")
        text = made.read()
    assert text.count("WAITING") == 1
    assert text.count("memory-of-the-reviewer") == 1
    assert text.splitlines()[:3] == ["callboard: begins", "counter | works", "counter | goes on"]


def test_a_table_that_is_higher_than_the_terminal_is_cut_and_not_repeated() -> None:
    rows = [Row(f"type{n}", 1, 1, n, 0, 0, 0, 0, 0.0) for n in range(60)]
    with terminal(80) as made:
        board = board_on(made)
        for _ in range(3):
            board.show(rows)
        text = made.read()
    assert text.count("TYPE") == 1
    assert len(text.splitlines()) == made.screen.lines - 1


def test_what_comes_after_the_table_begins_on_a_line_of_its_own() -> None:
    with terminal(80) as made:
        pane = Pane(made.stream)
        pane.draw(["one", "two"])
        pane.close()
        print("three", file=made.stream, flush=True)
        assert made.read() == "one\ntwo\nthree"


def test_a_terminal_that_was_closed_is_no_error() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    pane = Pane(Gone())
    for _ in range(2):
        pane.draw(["one"], ["above"])
    pane.close()


@pytest.mark.parametrize(("columns", "lines", "shown"), [(120, 6, 3), (20, 8, 2)])
def test_a_low_terminal_says_how_many_types_it_has_no_room_for(columns: int, lines: int, shown: int) -> None:
    rows = [Row(f"type-{number}", 1, 1, 0, 0, 0, 0, 0, 0.0) for number in range(9)]
    written = io.StringIO()

    class LowPane(Pane):
        def size(self) -> os.terminal_size:
            return os.terminal_size((columns, lines))

    LiveBoard(LowPane(written)).show(rows)
    text = written.getvalue()
    assert sum(f"type-{number}" in text for number in range(9)) == shown
    assert f"... and {9 - shown} more" in text
    assert len(text.splitlines()) == lines - 1
