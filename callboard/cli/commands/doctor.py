"""`callboard doctor` and `callboard repair`: faults of a server and a namespace, and mending them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from callboard.cli.exits import BAD_USE, UNREACHABLE, CommandFailed, code_of
from callboard.cli.options import AsJson, Namespace, OptionalTarget, Url
from callboard.cli.output import OutputClosedError, print_json, say, terminal_width, wrapped
from callboard.cli.sessions import looked_for, on_server, operator, run, seen

if TYPE_CHECKING:
    from callboard.broker.redis.operations.doctor import Finding, Report
    from callboard.broker.redis.operations.repair import Fault, Repair

EXIT = {"ok": 0, "info": 0, "warning": 1, "error": 2}
ROOMY = 80  # columns of a terminal on which texts begin below each other
COLOURS = {"ok": "green", "info": "cyan", "warning": "yellow", "error": "bold red"}


def doctor(
    target: OptionalTarget = None,
    url: Url = None,
    namespace: Namespace = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only what needs attention.")] = False,
    as_json: AsJson = False,
) -> int:
    """Examine the server and the namespace, and say what to do.

    It looks at the version, rights, persistence, memory, clocks, latency, replicas, workers,
    agent types that the app lacks and no worker runs, what waits, dead letters, timers, and whether the
    books of the namespace agree. Nothing is changed. Also a server that can't be reached is a finding.

      callboard doctor counting:app
      callboard doctor --url redis://10.0.0.5:6379 --namespace counting --quiet --json

    Exit codes: 0 nothing worse than info, 1 warnings, 2 errors (or wrong use).
    """
    report = run(_examined(target, url, namespace))
    if as_json:
        print_json(_as_data(report))
    else:
        _show(report, quiet)
    return EXIT[report.worst]


async def _examined(target: str | None, url: str | None, namespace: str | None) -> Report:
    from callboard.broker.errors import BrokerError, ServerUnavailableError
    from callboard.broker.redis.operations.doctor import Report, examine, unreachable
    from callboard.process.loader import load_app

    declared = load_app(target).agent_types if target else None
    try:
        async with looked_for(target, url, namespace) as transport:
            return await examine(transport, declared)
    except (BrokerError, CommandFailed) as failed:  # the embedded server does not run
        if code_of(failed) != UNREACHABLE:
            raise
        # Not the URL that was given, which may have a password in it.
        server = failed.url if isinstance(failed, ServerUnavailableError) else "embedded"
        return Report(server=server, namespace=namespace or "-", findings=(unreachable(str(failed)),))


def _as_data(report: Report) -> dict[str, object]:
    from dataclasses import asdict

    return {"worst": report.worst, "exit_code": EXIT[report.worst], **asdict(report)}


def _show(report: Report, quiet: bool) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    shown = [one for one in report.findings if not (quiet and EXIT[one.level] == 0)]
    try:
        width = terminal_width(sys.stdout)
        console.print("\n".join(wrapped(f"{report.server}, namespace {report.namespace}", width)))
        for finding in shown:
            console.print(Text.assemble(*_lines(finding, width)))
        counts = {level: sum(one.level == level for one in report.findings) for level in EXIT}
        console.print(", ".join(f"{count} {level}" for level, count in counts.items() if count))
    except BrokenPipeError as error:
        raise OutputClosedError from error


def _lines(finding: Finding, width: int | None) -> list[tuple[str, str]]:
    """A finding as coloured parts; on a terminal its lines end between words, and begin further left on a narrow one."""
    left = " " * (21 if width is None or width >= ROOMY else 2)
    first = wrapped(f"{finding.check:<12} {finding.what}", width, indent=left, first=" " * 8)
    parts = [(f"{finding.level:<8}", COLOURS[finding.level]), ("\n".join(first)[8:], "")]
    if finding.why:
        parts.append(
            ("\n" + "\n".join(wrapped(f"why: {finding.why}", width, indent=left, first=left)), "dim")
        )
    if finding.do:
        parts.append(("\n" + "\n".join(wrapped(f"do:  {finding.do}", width, indent=left, first=left)), ""))
    return parts


def repair(
    target: OptionalTarget = None,
    url: Url = None,
    namespace: Namespace = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Mend it; without this it only says what it would mend.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what it would mend; the default.")
    ] = False,
    libraries: Annotated[
        bool,
        typer.Option(
            "--libraries",
            help="Instead, the functions that other versions left on the server, of all its namespaces.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Mend a namespace whose keys contradict each other. Workers may run meanwhile.

    Each fault is checked again and mended in one step inside the server. A worker whose books are wrong is ended
    as if its lease were over: what it runs is run again without counting an attempt, and it joins again by itself.

      callboard repair counting:app
      callboard repair counting:app --yes
      callboard repair --libraries --yes

    Exit codes: 0 nothing is left, 1 something is left, 2 wrong use, 3 no server.
    """
    from callboard.broker.redis.operations.repair import Repair

    if yes and dry_run:
        raise CommandFailed("--yes and --dry-run exclude each other", BAD_USE)
    if libraries:
        _show_libraries(run(_libraries(target, url, namespace, yes)), yes, as_json)
        return

    async def work() -> Repair:
        from callboard.broker.redis.operations import repair as mending

        async with (operator if yes else seen)(target, url, namespace) as transport:
            return await mending.repair(transport) if yes else Repair((), await mending.find(transport))

    done = run(work())
    if as_json:
        print_json(
            {"mended": [_fault(one) for one in done.mended], "left": [_fault(one) for one in done.left]}
        )
    else:
        _show_repair(done)
    if done.left:
        _explain_what_is_left(done, yes)


async def _libraries(
    target: str | None, url: str | None, namespace: str | None, delete: bool
) -> tuple[str, ...]:
    from callboard.broker.redis.operations.namespaces import delete_old_libraries, old_libraries

    async with on_server(target, url, namespace) as transport:
        return await (delete_old_libraries if delete else old_libraries)(transport)


def _show_libraries(names: tuple[str, ...], deleted: bool, as_json: bool) -> None:
    if as_json:
        print_json({"deleted" if deleted else "there": names})
    else:
        for name in names:
            say(f"{'deleted' if deleted else 'there':<7} {name}")
        if not names:
            say("the server has no functions of other versions")
    if names and not deleted:
        raise CommandFailed(
            f"{len(names)} can be deleted when all processes have this version: --libraries --yes"
        )


def _fault(fault: Fault) -> dict[str, object]:
    from dataclasses import asdict

    from callboard.broker.redis.operations.repair import KINDS

    what, why, serious = KINDS[fault.kind]
    return {**asdict(fault), "what": what, "why": why, "serious": serious}


def _show_repair(done: Repair) -> None:
    for fault in (*done.mended, *done.left):
        say(f"{fault.status:<7} {fault}")
    if not done.mended and not done.left:
        say("the books of the namespace agree")


def _explain_what_is_left(done: Repair, mending: bool) -> None:
    there = sum(fault.status == "there" for fault in done.left)
    parts = [f"{there} things can be mended: callboard repair --yes"] if there and not mending else []
    parts += [f"{there} things came back while they were mended: run it again"] if there and mending else []
    stays = len(done.left) - there
    parts += [f"{stays} things only a person can decide, see above"] if stays else []
    raise CommandFailed("; ".join(parts))
