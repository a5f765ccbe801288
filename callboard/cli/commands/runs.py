"""`callboard runs`: the runs of teams. One function for each command, and a line at the end.

A command takes a run as `RunNames` and finds it with `chosen`: see `show` for one that reads, `cancel` for one that gives an
order.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from callboard.cli.exits import FAILED, CommandFailed, bad_use
from callboard.cli.options import (
    AsJson,
    Namespace,
    NumberCommand,
    OptionalTarget,
    Url,
    command,
    positive_duration as past,
    split_names,
    unmarked,
)
from callboard.cli.output import (
    clock,
    duration,
    hint,
    print_json,
    say,
    say_facts,
    say_paused,
    say_resumed,
    say_table,
    to_json,
)
from callboard.cli.sessions import run, runs_at
from callboard.cli.team_conversation import print_lines, user_name
from callboard.foundation.texts import shell_line

if TYPE_CHECKING:
    from callboard.core.people import InputRequest
    from callboard.runtime.runtime import RedisAgentRuntime
    from callboard.teams import RunSummary, TeamClient
    from callboard.teams.protocol import Shown


MODULE_AND_APP: Final = re.compile(r"[\w.]+:[\w.]+")

RunNames = Annotated[
    list[str],
    typer.Argument(
        metavar="[MODULE:APP] RUN",
        help="The app, for its namespace; then a run as `runs list` shows it, or the beginning of its id.",
    ),
]


@contextlib.asynccontextmanager
async def chosen(
    names: list[str], url: str | None, namespace: str | None
) -> AsyncIterator[tuple[RedisAgentRuntime, RunSummary]]:
    """The run that a command line names, and a runtime on its server.

    Raises:
        CommandFailed: There is none or more than one of that name, or the command line names none.
    """
    from callboard.teams import RunUnknownError, find_run

    # The id of a run may look like module:app; alone it is no app.
    target, rest = (None, names) if len(names) == 1 else split_names(names)
    if len(rest) != 1:
        bad_use(
            "give an app or --namespace, and one run as `callboard runs list` shows it; the beginning of its id is enough"
        )
    async with runs_at(target, url, namespace) as runtime:
        try:
            run = await find_run(runtime, rest[0])
        except RunUnknownError as error:
            if target is None and MODULE_AND_APP.fullmatch(rest[0]):
                listing = shell_line("callboard", "runs", "list", rest[0])
                bad_use(f"give a run as well, as `{listing}` shows it; the beginning of its id is enough")
            raise CommandFailed(f"{error} `callboard runs list` shows them all", FAILED) from error
        yield runtime, run


@contextlib.asynccontextmanager
async def leader(runtime: RedisAgentRuntime, run: RunSummary) -> AsyncIterator[TeamClient]:
    """The conversation of a run, for orders to its manager; one that it refuses ends the command with its reason.

    Raises:
        CommandFailed: The run has ended, or its team is not known.
    """
    from callboard.teams import TeamError

    if run.ended is not None:
        raise CommandFailed(f"the run {run.run_id} has ended: it is {run.state}", FAILED)
    client = await whose(runtime, run)
    try:
        yield client
    except TeamError as error:
        raise CommandFailed(str(error), FAILED) from error


async def whose(runtime: RedisAgentRuntime, run: RunSummary, *, needs_worker: bool = True) -> TeamClient:
    """The conversation of a run.

    Args:
        runtime: Reaches it.
        run: The run.
        needs_worker: Say so when no worker runs that could take an order.

    Raises:
        CommandFailed: Its team is not known.
    """
    from callboard.broker.redis.operations.inspect import has_worker
    from callboard.teams import TeamClient

    if not run.team:
        raise CommandFailed(f"no team is known for the run {run.run_id}: its beginning is not kept", FAILED)
    if needs_worker and not await has_worker(runtime.transport, run.team):
        hint(f"no worker runs {run.team!r} now; the order waits for one: `callboard up MODULE:APP`")
    return TeamClient(runtime, run.team, run.conversation)


def list_them(
    target: OptionalTarget = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="STATE",
            help="Only runs that are working, input_required, paused, completed, failed or cancelled.",
        ),
    ] = None,
    team: Annotated[str | None, typer.Option(metavar="TEAM", help="Only runs of this team.")] = None,
    conversation: Annotated[
        str | None, typer.Option(metavar="ID", help="Only runs of this conversation.")
    ] = None,
    since: Annotated[
        float | None,
        typer.Option(parser=past, metavar="TIME", help="Only runs that began within this time: 30m, 2h, 1d."),
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Most runs to show, the newest first.")] = 20,
    url: Url = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """List runs, the newest first.

    The other commands take a run as the column RUN shows it, or the beginning of it. Runs are kept for `run_retention`
    after their last event, 7 days if nothing else is set. A task that waits for another run is listed once it begins.

      callboard runs list poets:app
      callboard runs list poets:app --state failed --limit 5
      callboard runs list poets:app --conversation customer-17 --since 1d
      callboard runs list --namespace poems --json

    Exit codes: 0 listed, 2 wrong use, 3 no server.
    """
    from typing import get_args

    from callboard.teams.protocol import RunState

    states = [*get_args(RunState), "unknown"]
    if state is not None and state not in states:
        bad_use(f"--state is one of {', '.join(states)}, and not {state!r}")

    async def read() -> list[RunSummary]:
        from callboard.teams import list_runs

        async with runs_at(target, url, namespace) as runtime:
            begins = None if since is None else await _time_ago(runtime, since)
            return await list_runs(
                runtime, state=state, team=team, conversation=conversation, since=begins, limit=limit + 1
            )

    found = run(read())
    is_cut, found = len(found) > limit, found[:limit]
    if as_json:
        print_json(found)
    elif not found:
        say("no runs" if (state, team, conversation, since) == (None,) * 4 else "no such runs")
    else:
        header = ("RUN", "TEAM", "CONVERSATION", "STATE", "BEGAN", "TOOK", "ENTRIES")
        say_table(header, [_run_row(one) for one in found], optional=("ENTRIES", "TOOK"))
    if is_cut:
        hint(f"there are older ones: --limit {limit * 10} shows more")


async def _time_ago(runtime: RedisAgentRuntime, seconds: float) -> datetime:
    """The time so long ago by the server's clock, by which runs begin."""
    now, _ = await runtime.transport.admin.command("TIME")
    return datetime.fromtimestamp(max(0.0, int(now) - seconds), UTC)


def _run_row(one: RunSummary) -> tuple[object, ...]:
    return (
        one.run_id,
        one.team or None,
        one.conversation or None,
        one.state,
        clock(one.began),
        duration((one.ended - one.began).total_seconds()) if one.ended else None,
        one.entries,
    )


LONGEST = 400  # characters of the task and of the last message, for people


def show(names: RunNames, url: Url = None, namespace: Namespace = None, as_json: AsJson = False) -> None:
    """Show a run: its task, who spoke, how it stands, why it ended. Also what models used for it, and what it asks people.

      callboard runs show poets:app 3f2a
      callboard runs show first-line --namespace poems --json

    Exit codes: 0 shown, 1 there is no such run, 2 wrong use, 3 no server.
    """

    async def read() -> dict[str, Any]:
        async with chosen(names, url, namespace) as (runtime, one):
            return await _told(runtime, one)

    told = run(read())
    if as_json:
        print_json(told)
    else:
        _say(told)


async def _told(runtime: RedisAgentRuntime, one: RunSummary) -> dict[str, Any]:
    """A run as `show` tells of it."""
    from callboard.teams import TeamClient
    from callboard.teams.member import open_questions
    from callboard.teams.protocol import Shown

    task, last, speakers = "", "", Counter[str]()
    async for entry in runtime.read_run(one.stream, live=False):
        shown = entry.event
        if not isinstance(shown, Shown) or not shown.is_final or not shown.messages:
            continue
        if shown.is_task:
            task = "\n".join(message.to_text() for message in shown.messages)
        elif ends_turn(shown):
            speakers[shown.source] += 1
            last = shown.messages[-1].to_text()
    told = {**asdict(one), "task": task, "turns": speakers.total(), "speakers": dict(speakers), "last": last}
    if not one.team:
        return told
    told["usage"] = asdict(await TeamClient(runtime, one.team, one.conversation).usage(one.run_id))
    questions = [] if one.ended else await open_questions(runtime, one.team, one.conversation)
    told["questions"] = [{"id": q.id, "question": q.question, "agent": str(q.agent)} for q in questions]
    return told


def ends_turn(shown: Shown) -> bool:
    """Whether a member of the outermost team has spoken with this: a question on the way, and its answer, are no turn."""
    return len(shown.turn) == 1 and shown.turn[0] > 0 and not shown.goes_on and not shown.is_aside


def _say(told: dict[str, Any]) -> None:
    began, ended = told["began"], told["ended"]
    say(told["run_id"])
    facts = {
        "team": told["team"] or "-",
        "conversation": told["conversation"] or "-",
        "state": told["state"],
        "began": clock(began),
        "ended": f"{clock(ended)}, after {duration((ended - began).total_seconds())}" if ended else "-",
        "why": told["stop_reason"] or told["problem"] or "-",
        "task": _short(told["task"]),
        "turns": f"{told['turns']}: {_counted(told['speakers'])}" if told["turns"] else "0",
        "last": _short(told["last"]),
        "stream": f"run:{told['stream']}, {told['entries']:,} entries",
    }
    say_facts(facts)
    for question in told.get("questions", ()):
        say_facts({"asks": f"{question['agent']}: {_short(question['question'])} ({question['id']})"})
    parts = told["usage"]["parts"] if "usage" in told else ()
    if parts:
        say()
        header = ("AGENT", "MODEL", "REQUESTS", "PROMPT", "COMPLETION", "USD")
        say_table(header, [_used(part) for part in parts])


def _used(part: dict[str, Any]) -> tuple[object, ...]:
    spent = part["spent"]
    usd = f"{spent['usd']:.4f}" if spent["usd"] or not spent["unpriced"] else None
    tokens = (spent["prompt_tokens"], spent["completion_tokens"])
    return (part["agent"] or None, part["model"], spent["requests"], *tokens, usd)


def _counted(speakers: dict[str, int]) -> str:
    return ", ".join(f"{name} {turns}" for name, turns in speakers.items())


def _short(text: str) -> str:
    return (text if len(text) <= LONGEST else f"{text[:LONGEST]}... (--json shows all)") or "-"


def follow(names: RunNames, url: Url = None, namespace: Namespace = None, as_json: AsJson = False) -> None:
    """Read a run from its beginning, and along with it until it ends.

    Ctrl-C ends the reading only: the run goes on, and can be read again.

      callboard runs follow poets:app 3f2a
      callboard runs follow poets:app 3f2a --json

    Exit codes: 0 it was completed, 1 it failed or was cancelled, or there is no such run; 2 wrong use, 3 no server,
    130 stopped by Ctrl-C.
    """

    async def read() -> None:
        async with chosen(names, url, namespace) as (runtime, one):
            await _read(runtime, one, as_json)

    run(read())


async def _shown(stream: Any, runtime: RedisAgentRuntime) -> Any:
    from callboard.ui import Console

    return await Console(stream, output_stats=True, answers=runtime.inputs, by=user_name())


async def _read(runtime: RedisAgentRuntime, one: RunSummary, as_json: bool) -> None:
    from callboard.teams import RunCancelledError, TeamRunError
    from callboard.teams.client import followed

    async with runtime.read_run(one.stream, live=one.state != "unknown") as entries:
        stream = followed(entries, one.run_id)
        try:
            await (print_lines(stream) if as_json else _shown(stream, runtime))
        except (RunCancelledError, TeamRunError) as error:
            raise CommandFailed(str(error), FAILED) from error


NAMED = 5  # questions that an error names


def answer(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODULE:APP] [ID] [VALUE]",
            help="The app, for its namespace; a question, by the beginning of its id or the agent that asks; the answer.",
        ),
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who answers. Default: the user of this system.")
    ] = None,
    url: Url = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Answer a question that a handler waits for. Without an id, list the open ones; without an answer, show one.

    For a call of a tool that has to be allowed the answer is yes, no, "no: the reason", or other arguments as a JSON object;
    where there are choices, one of them or its number; where a text is asked for, the text; else JSON. The first answer
    counts. What begins with a dash and is no number comes behind `--`.

      callboard runs answer shop:app
      callboard runs answer shop:app 8d0f yes
      callboard runs answer shop:app orders.desk/customer-1 yes
      callboard runs answer --namespace shop 8d0f "no: ask for a receipt first" --by ada

    Exit codes: 0 answered, or shown; 1 there is no such question, it was answered before, has expired, was put to another
    person, or this is no answer to it; 2 wrong use, 3 no server.
    """
    target, rest = split_names(unmarked(names))
    if len(rest) > 2:
        bad_use("give the answer as one word, or in quotes")

    async def work() -> None:
        async with runs_at(target, url, namespace) as runtime:
            if not rest:
                _list(await runtime.inputs.list(), as_json)
                return
            question = await _named(runtime, rest[0])
            if len(rest) == 1:
                _show(question, as_json)
            else:
                await _answer(runtime, question, rest[1], user_name() if by is None else by)

    run(work())


async def _answer(runtime: RedisAgentRuntime, question: InputRequest, text: str, by: str) -> None:
    from callboard.core.answers import answer_of

    value = answer_of(text, question.id, question.choices, question.schema, question.details)
    await runtime.inputs.answer(question.id, value, by=by)
    say(f"answered by {by or 'nobody'}: {question.agent} goes on")


async def _named(runtime: RedisAgentRuntime, name: str) -> InputRequest:
    """The question with this id, or the only open one whose id begins with it, or which this agent asks."""
    from callboard.errors import InputRequestUnknownError

    questions = await runtime.inputs.list()
    near = [one for one in questions if one.id.startswith(name) or str(one.agent) == name]
    if len(near) == 1:
        return near[0]
    if near:
        ids = ", ".join(one.id for one in near[:NAMED])
        raise CommandFailed(
            f"{len(near)} open questions are named by {name!r}: take the id of one, {ids}", FAILED
        )
    try:
        return await runtime.inputs.get(name)
    except InputRequestUnknownError as error:
        raise CommandFailed(
            f"there is no open question {name!r}: `callboard runs answer` lists them", FAILED
        ) from error


def _list(questions: list[InputRequest], as_json: bool) -> None:
    if as_json:
        print_json(questions)
    elif not questions:
        say("no open questions")
    else:
        header = ("ID", "AGENT", "ASKED", "TO", "QUESTION")
        say_table(header, [_question_row(question) for question in questions], optional=("TO", "ASKED"))


def _question_row(question: InputRequest) -> tuple[object, ...]:
    since = f"{duration(max(0.0, time.time() - question.asked))} ago"
    return (question.id, question.agent, since, ", ".join(question.to) or None, question.question)


def _show(question: InputRequest, as_json: bool) -> None:
    from callboard.core.answers import how_to_answer
    from callboard.runtime.effects import id_in

    if as_json:
        print_json(question)
        return
    details = {
        name: str(value) if isinstance(value, str) else to_json(value)
        for name, value in question.details.items()
    }
    say(question.question)
    say_facts(
        {
            "id": question.id,
            "agent": str(question.agent),
            "run": id_in(question.run_path or "") or "-",
            "status": question.status.value,
            "to": ", ".join(question.to) or "anybody",
            **details,
            "answer": how_to_answer(question.choices, question.schema, question.details)
            if question.status.value == "open"
            else to_json(question.answer),
        }
    )


def cancel(names: RunNames, url: Url = None, namespace: Namespace = None) -> None:
    """Cancel a run. It ends now, who is speaking is stopped, and what was said is kept.

      callboard runs cancel poets:app 3f2a

    Exit codes: 0 cancelled, 1 it has ended already, or there is no such run; 2 wrong use, 3 no server, 4 no answer:
    it is cancelled as soon as a process of its team is back.
    """
    from callboard.broker.errors import RequestTimeoutError

    async def order(client: TeamClient, run_id: str) -> None:
        try:
            await client.abort(run_id)
        except RequestTimeoutError:
            hint(f"{run_id} is cancelled as soon as a process of its team is back")
            raise
        say(f"{run_id} is cancelled")

    _give(names, url, namespace, order)


def pause(
    names: RunNames,
    now: Annotated[
        bool,
        typer.Option(
            "--now", help="Interrupt who is speaking as well; the turn begins again after `resume`."
        ),
    ] = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Pause a run: none begins to speak until `callboard runs resume`.

    It stays paused when everything is restarted. With --now the turn under way is begun again afterwards; answers of
    models and results of tools that were recorded in it are not made again.

      callboard runs pause poets:app 3f2a
      callboard runs pause poets:app 3f2a --now

    Exit codes: 0 paused, 1 it has ended, or there is no such run; 2 wrong use, 3 no server, 4 no answer.
    """

    async def order(client: TeamClient, run_id: str) -> None:
        say_paused(run_id, await client.pause(now=now, run_id=run_id))

    _give(names, url, namespace, order)


def resume(names: RunNames, url: Url = None, namespace: Namespace = None) -> None:
    """Let a run that was paused go on.

      callboard runs resume poets:app 3f2a

    Exit codes: 0 it goes on, 1 it has ended, or there is no such run; 2 wrong use, 3 no server, 4 no answer.
    """

    async def order(client: TeamClient, run_id: str) -> None:
        say_resumed(run_id, await client.resume(run_id=run_id))

    _give(names, url, namespace, order)


def _give(
    names: list[str],
    url: str | None,
    namespace: str | None,
    order: Callable[[TeamClient, str], Awaitable[None]],
) -> None:
    async def work() -> None:
        async with chosen(names, url, namespace) as (runtime, one), leader(runtime, one) as client:
            await order(client, one.run_id)

    run(work())


def fork(
    names: RunNames,
    conversation: Annotated[
        str, typer.Option("--conversation", help="Id of the new conversation, in which nothing was said yet.")
    ],
    at: Annotated[
        int | None,
        typer.Option(
            "--at", help="Number of a turn of the run's conversation; else the last one of the run."
        ),
    ] = None,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Make a new conversation of a run's, up to a turn. Nothing is paid for again.

    The conversation itself goes on untouched. A wrong number is answered with those of its last turns.

      callboard runs fork poets:app 3f2a --conversation sea-2
      callboard runs fork poets:app 3f2a --at 4 --conversation sea-3
      callboard ask poets:app poets "And now shorter" --conversation sea-3

    Exit codes: 0 forked, 1 there is no such turn or run, or there is such a conversation; 2 wrong use, 3 no server,
    4 no answer.
    """

    async def work() -> None:
        from callboard.teams import TeamForkError

        async with chosen(names, url, namespace) as (runtime, one):
            client = await whose(runtime, one)
            try:
                made = await client.fork(conversation, at=at, run_id="" if at is not None else one.run_id)
            except TeamForkError as error:
                raise CommandFailed(str(error), FAILED) from error
            say(f"{client.conversation} is forked to {made.conversation}: the team is {client.team}")

    run(work())


def export(names: RunNames, url: Url = None, namespace: Namespace = None) -> None:
    """Write a run to stdout as a cassette. These are JSON lines: what models and tools answered, and what was said.

    The run has to be started with `record=True`, and to have ended. `callboard.testing.replay` replays it in a test.

      callboard runs export poets:app 3f2a > sea.jsonl

    Exit codes: 0 written, 1 it was not recorded or goes on, or there is no such run; 2 wrong use, 3 no server.
    """

    async def read() -> str:
        from callboard.testing import CassetteError

        async with chosen(names, url, namespace) as (runtime, one):
            if one.ended is None:
                raise CommandFailed(f"the run {one.run_id} goes on: it is {one.state}", FAILED)
            client = await whose(runtime, one, needs_worker=False)
            try:
                return (await client.export(one.run_id)).dump()
            except CassetteError as error:
                raise CommandFailed(str(error), FAILED) from error

    say(run(read()).rstrip("\n"))


runs = typer.Typer(
    help="Runs of teams: look at, answer, pause or cancel them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

command(runs, "list", list_them)
command(runs, "show", show)
command(runs, "follow", follow)
command(runs, "answer", answer, NumberCommand)
command(runs, "cancel", cancel)
command(runs, "pause", pause)
command(runs, "resume", resume)
command(runs, "fork", fork)
command(runs, "export", export)
