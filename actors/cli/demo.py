"""`callboard demo`: a real job on four agent types in six processes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import AsJson, Url, command
from .output import print_json, remark, say

if TYPE_CHECKING:
    from .demo_report import Report
    from .demo_run import DemoPlan

# Seconds that a worker takes for a draft at least, so that a person sees something.
PACE, KILL_PACE = 0.3, 0.6


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "demo", demo)


def demo(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE or FOLDER]", help="A .md or .txt file or a folder. Default: our own docs."
        ),
    ] = None,
    kill: Annotated[
        bool, typer.Option("--kill", help="Kill a worker process with -9 in the middle.")
    ] = False,
    words: Annotated[
        int, typer.Option(min=100, max=5_000, metavar="N", help="Longest digest, in words.")
    ] = 350,
    pace: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0, max=60, help="Pause before each draft. Default: 0.3; 0.6 if --kill."
        ),
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> int:
    """Digest real documents with four agent types in six processes.

    A splits the text into ten subtasks, three processes of B choose sentences for each, C compiles, D reviews
    and sends feedback to B; three rounds. Then the counts are checked: 1 message for A, 30 for B, 30 for C,
    30 for D, 10 results, nothing pending and nothing dead, whatever was killed on the way. It needs no model
    and no key, and runs on a server of its own in .callboard/ unless --url is given.

      callboard demo
      callboard demo docs --kill
      callboard demo notes.md --words 200 --json

    Exit codes: 0 every count is exact, 1 one of them is not, 2 wrong use, 3 no server, 130 interrupted.
    """
    from ..demo.documents import prepare
    from .demo_report import lines_of, server_cli
    from .demo_run import DemoPlan

    prepared = prepare([path] if path is not None else own_documents())
    for note in prepared.left_out:
        remark(f"left out: {note}")
    chosen_pace = pace if pace is not None else (KILL_PACE if kill else PACE)
    requirements = prepared.requirements("digest", words=words, pace=chosen_pace)
    report = asyncio.run(_run(DemoPlan(requirements, url, kill)))
    if as_json:
        print_json(report.as_data())
    else:
        say(f"\n{report.digest}")
        for line in lines_of(report, server_cli(url)):
            say(line)
    return 1 if report.problems else 0


def own_documents() -> list[Path]:
    """README and docs of the checkout that this package is in, else the text that comes with it."""
    root = Path(__file__).resolve().parents[2]
    if (root / "pyproject.toml").is_file():
        found = [path for path in (root / "README.md", root / "docs") if path.exists()]
        if found:
            return found
    return [Path(__file__).with_name("sample.md")]


async def _run(plan: DemoPlan) -> Report:
    from .board import board
    from .demo_run import DemoRun, fresh_namespace
    from .sessions import server_at

    async with server_at(plan.url) as server, fresh_namespace(server.url) as transport:
        with board(to_stderr=True) as shown:
            return await DemoRun(plan, transport, shown, server.revive).run()
