"""A worker's line is read without typer, and as typer reads it; what is not plainly right is left to typer."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from callboard.cli.command_line import command_line
from callboard.cli.main import main
from callboard.cli.worker_line import VALUES, WorkerLine, read_worker_line

PLAIN = [
    "worker counting:app",
    "worker counting:app --type counter --type writer --url redis://10.0.0.5:6379 --namespace shop",
    "worker --type counter counting:app --grace 90s --max-memory 500MB --max-messages 10",
    "worker --type=counter --url=redis://h?a=b counting:app --grace=1h30m --max-memory=1.5G --max-messages=0",
    "worker counting:app --health-file /tmp/alive --folder /srv/app --watch 5 --grace 0",
]
LEFT_TO_TYPER = [
    *(
        "worker",
        "worker --help",
        "worker counting:app -h",
        "worker counting:app more",
        "worker -- counting:app",
    ),
    *("worker counting:app --type", "worker counting:app --typo x", "worker counting:app --type ''"),
    *("worker counting:app --grace soon", "worker counting:app --max-messages -1", "worker ''"),
    *("worker counting:app ''", "worker '' counting:app --type counter"),
    *(
        "worker counting:app --max-messages ten",
        "worker counting:app --url a --url b",
        "worker x:app --url=-",
    ),
    *("status", "work counting:app", ""),
]


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[WorkerLine]:
    """The lines of the workers that would have begun; each ends with status 79."""
    lines: list[WorkerLine] = []

    def work(line: WorkerLine) -> int:
        lines.append(line)
        return 79

    monkeypatch.setattr("callboard.cli.worker_process.work", work)
    return lines


@pytest.mark.parametrize("line", PLAIN)
def test_typer_reads_it_in_the_same_way(line: str, begun: list[WorkerLine]) -> None:
    read = read_worker_line(shlex.split(line))
    command_line("worker")(shlex.split(line), standalone_mode=False)
    assert [read] == begun


@pytest.mark.parametrize("line", LEFT_TO_TYPER)
def test_what_is_not_plainly_right_is_left_to_typer(line: str) -> None:
    assert read_worker_line(shlex.split(line)) is None


def test_it_knows_every_option_that_typer_knows() -> None:
    root: Any = typer.main.get_command(command_line("worker"))
    options = {one.name for one in root.commands["worker"].params if one.param_type_name == "option"}
    assert {"type" if name == "types" else name for name in options} == set(VALUES)
    assert set(WorkerLine._fields) == set(VALUES) - {"type"} | {"target", "types"}


def test_a_plain_line_goes_to_the_worker_and_its_exit_code_is_that_of_the_process(
    begun: list[WorkerLine],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["worker", "counting:app", "--debug", "--health-file", "alive"])
    assert ended.value.code == 79
    assert begun == [WorkerLine("counting:app", health_file=Path("alive"))]
