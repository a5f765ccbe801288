"""`callboard dead`: messages that failed for good."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from callboard.cli.exits import CommandFailed, bad_use
from callboard.cli.options import AsJson, Namespace, Url, command, split_names
from callboard.cli.output import clock, print_json, say, say_facts, say_table, to_json
from callboard.cli.sessions import check_type, operator, run, seen

if TYPE_CHECKING:
    from callboard.broker.redis.client.transport import RedisTransport
    from callboard.broker.redis.operations.deadletters import DeadLetterRecord, HandledLetters

dead = typer.Typer(
    help="Dead letters: messages that failed for good, and why.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

WRITE = "write TYPE/ID as `callboard dead list` shows them, such as counter/1763700000000-0"

Letters = Annotated[
    list[str],
    typer.Argument(
        metavar="[MODULE:APP] LETTER...", help="As `dead list` shows them, such as counter/1763700000000-0."
    ),
]
Every = Annotated[
    bool, typer.Option("--all", help="All letters of the agent types that are given instead of letters.")
]


def list_letters_of(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODULE:APP] [TYPE]",
            help="The app, for its namespace; then an agent type. Default: all.",
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="Most letters to show, the newest first.")
    ] = 100,
    url: Url = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """List dead letters, newest first.

    The other commands take a letter as the column LETTER shows it.

      callboard dead list counting:app
      callboard dead list counter --namespace counting --json
    """
    from callboard.broker.redis.operations.deadletters import list_letters

    target, rest = split_names(names or [])
    if len(rest) > 1:
        bad_use("give one agent type, or none for all of them")

    async def read() -> tuple[DeadLetterRecord, ...]:
        async with seen(target, url, namespace) as transport:
            if rest:
                await _check_type(transport, rest[0])
            return await list_letters(transport, rest[0] if rest else None, limit)

    letters = run(read())
    if as_json:
        print_json([as_data(letter) for letter in letters])
    elif not letters:
        say("no dead letters")
    else:
        header = ("LETTER", "MESSAGE", "KEY", "WHEN", "TRIES", "REASON")
        say_table(header, [_row(letter) for letter in letters])


def show(letters: Letters, url: Url = None, namespace: Namespace = None, as_json: AsJson = False) -> None:
    """Show letters with payload, reason and traceback.

    They stay where they are. Instead of a letter's id the id of its message will do, as workers log it.

      callboard dead show counting:app counter/1763700000000-0

    Exit codes: 0 shown, 1 one of them was not there, 2 wrong use, 3 no server.
    """
    from callboard.broker.redis.operations import deadletters

    target, rest = split_names(letters)
    if not rest:
        bad_use(f"say which letters: {WRITE}")
    chosen = [_split(name) for name in rest]

    async def read() -> list[DeadLetterRecord | None]:
        async with seen(target, url, namespace) as transport:
            for agent_type, _ in chosen:
                await _check_type(transport, agent_type)
            return [
                await deadletters.show(transport, agent_type, letter_id) for agent_type, letter_id in chosen
            ]

    found = run(read())
    there = [letter for letter in found if letter is not None]
    if as_json:
        print_json([as_data(letter) for letter in there])
    else:
        for letter in there:
            _show(letter)
    missing = [name for name, letter in zip(rest, found, strict=True) if letter is None]
    if missing:
        raise CommandFailed(
            f"there is no dead letter {', '.join(missing)}; `callboard dead list` shows what is there"
        )


def replay(
    letters: Letters,
    every: Every = False,
    url: Url = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Send letters again, to the agent type that failed only.

    Each is sent once, even if this is called again. It is handled after the messages that wait already.

      callboard dead replay counting:app counter/1763700000000-0
      callboard dead replay counting:app counter --all
    """
    _act("replay", letters, every, url, namespace, as_json)


def discard(
    letters: Letters,
    every: Every = False,
    url: Url = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Delete letters.

    Exit codes of this and of replay: 0 all done, 1 one of them was not there, 2 wrong use, 3 no server.

      callboard dead discard counting:app counter/1763700000000-0
      callboard dead discard counting:app counter --all
    """
    _act("discard", letters, every, url, namespace, as_json)


command(dead, "list", list_letters_of)
command(dead, "show", show)
command(dead, "replay", replay)
command(dead, "discard", discard)


def _act(
    action: str, letters: list[str], every: bool, url: str | None, namespace: str | None, as_json: bool
) -> None:
    from callboard.broker.redis.operations import deadletters

    target, rest = split_names(letters)
    chosen = _by_type(rest, every)
    act = deadletters.replay if action == "replay" else deadletters.discard

    async def work() -> dict[str, HandledLetters]:
        async with operator(target, url, namespace) as transport:
            for name in chosen:
                await _check_type(transport, name)
            return {name: await act(transport, name, ids) for name, ids in chosen.items()}

    outcome = run(work())
    done, gone, refused = (
        [f"{name}/{one}" for name, handled in outcome.items() for one in getattr(handled, what)]
        for what in ("done", "gone", "refused")
    )
    if as_json:
        print_json({"done": done, "gone": gone, "refused": refused})
    else:
        say(f"{'replayed' if action == 'replay' else 'discarded'} {len(done)} dead letters")
    problems = [f"not there: {', '.join(gone)}"] if gone else []
    problems += (
        [f"can't be sent again because they never were messages: {', '.join(refused)}"] if refused else []
    )
    if problems:
        raise CommandFailed("; ".join(problems))


def _by_type(names: list[str], every: bool) -> dict[str, list[str] | None]:
    if not names:
        bad_use(f"say which letters: {WRITE}, or an agent type with --all")
    if every:
        if wrong := [name for name in names if "/" in name]:
            bad_use(f"--all takes agent types, and {wrong[0]} is a letter")
        return dict.fromkeys(names)
    chosen: dict[str, list[str] | None] = {}
    for name in names:
        agent_type, letter_id = _split(name, ", or add --all")
        chosen[agent_type] = [*(chosen.get(agent_type) or []), letter_id]
    return chosen


def _split(name: str, otherwise: str = "") -> tuple[str, str]:
    agent_type, _, letter_id = name.partition("/")
    if not (agent_type and letter_id):
        bad_use(f"{name!r} is no dead letter: {WRITE}{otherwise}")
    return agent_type, letter_id


async def _check_type(transport: RedisTransport, agent_type: str) -> None:
    """Refuse a type that is not declared and has no letters."""
    from callboard.broker.redis.operations.deadletters import has_letters

    if not await has_letters(transport, agent_type):
        await check_type(transport, agent_type)


def as_data(letter: DeadLetterRecord) -> dict[str, object]:
    """A letter for programs; its payload decoded, or its bytes as base64."""
    from dataclasses import asdict

    data = asdict(letter)
    del data["head"]
    if not letter.problem:
        del data["body"]
    return {"letter": f"{letter.agent_type}/{letter.id}", **data}


def _row(letter: DeadLetterRecord) -> tuple[object, ...]:
    name = f"{letter.agent_type}/{letter.id}"
    why = f"{letter.reason}: {letter.error}" if letter.error else letter.reason
    return (
        name,
        letter.message_type or None,
        letter.key or None,
        _when(letter.last),
        letter.attempts,
        _first_line(why),
    )


def _first_line(text: str) -> str:
    line = text.split("\n", 1)[0]
    return line if len(line) <= 100 else f"{line[:97]}..."


def _when(ms: int) -> str:
    return clock(datetime.fromtimestamp(ms / 1000, UTC)) if ms else "-"


def _show(letter: DeadLetterRecord) -> None:
    from callboard.broker.envelope import shown

    payload = shown(letter.body) or to_json(letter.payload)
    say(f"{letter.agent_type}/{letter.id}")
    facts = {
        "message": f"{letter.message_type or '-'} {letter.message_id}",
        "agent": f"{letter.agent_type}/{letter.key}",
        "from": f"{letter.sender or 'no agent'}, in {letter.stream} {letter.entry}",
        "tried": f"{letter.attempts} times, first {_when(letter.first)}, last {_when(letter.last)}",
        "worker": letter.worker or "-",
        "reason": letter.reason,
        "error": letter.error or "-",
        "payload": f"unreadable: {letter.problem}" if letter.problem else payload,
    }
    say_facts(facts)
    if letter.traceback:
        say("\n".join(f"  {line}" for line in letter.traceback.rstrip().splitlines()))
