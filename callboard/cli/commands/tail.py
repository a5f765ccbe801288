"""`callboard tail`: messages as they are published."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callboard.cli.options import AsJson, Namespace, Url, split_names
from callboard.cli.output import PatientPrinter, hint, to_json
from callboard.cli.sessions import looked_for, names_in, run

if TYPE_CHECKING:
    from callboard.broker.redis.client.transport import RedisTransport
    from callboard.broker.redis.operations.entries import StreamEntry

LONGEST = 400  # characters of a body in a line for people


def tail(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODULE:APP] [TOPIC]...", help="The app, for its namespace; then topics. Default: all."
        ),
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Begin with the messages that are there already.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Stop after so many messages.")
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Show messages as they are published, decoded, until Ctrl-C.

    Agents still get every one of them. A message that can't be read is shown with the reason. A topic that does not
    exist yet is waited for.

      callboard tail counting:app
      callboard tail counting:app visits --from-start --limit 10 --json
      callboard tail visits --namespace counting
    """
    target, topics = split_names(names or [])
    run(_follow(target, topics, url, namespace, from_start, limit, as_json))


async def _follow(
    target: str | None,
    topics: list[str],
    url: str | None,
    namespace: str | None,
    from_start: bool,
    limit: int | None,
    as_json: bool,
) -> None:
    from contextlib import aclosing

    from callboard.broker.redis.operations.inspect import follow

    async with looked_for(target, url, namespace) as transport:
        await _say_what_is_missing(transport, topics)
        async with aclosing(follow(transport, topics, from_start)) as entries:
            printer, shown = PatientPrinter(), 0
            async for entry in entries:
                await printer.say(to_json(as_data(entry)) if as_json else as_line(entry))
                shown += 1
                if shown == limit:
                    return


async def _say_what_is_missing(transport: RedisTransport, topics: list[str]) -> None:
    from callboard.errors import did_you_mean

    known = await names_in(transport, "topics")
    for topic in topics:
        if topic not in known:
            hint(f"waiting for the topic {topic!r}, which does not exist yet. {did_you_mean(topic, known)}")


def as_data(entry: StreamEntry) -> dict[str, Any]:
    """An entry for programs."""
    data: dict[str, Any] = {"stream": entry.stream, "entry": entry.entry}
    if entry.envelope is None:
        fields = {name: value.decode(errors="replace") for name, value in entry.fields.items()}
        return {**data, "problem": entry.problem, "fields": fields}
    one = entry.envelope
    data |= {"id": one.id, "type": one.type, "key": one.key, "from": one.sender, "at": one.at}
    body, problem = _body(entry)
    return {**data, "problem": problem} if problem else {**data, "body": body}


def as_line(entry: StreamEntry) -> str:
    """An entry for people: time, topic, key, type, body, or where the bytes are that lie beside the stream."""
    from callboard.broker.encoding.claims import shown

    ms = int(entry.entry.partition("-")[0])
    time = datetime.fromtimestamp(ms / 1000, UTC).astimezone().strftime("%H:%M:%S.%f")[:-3]
    topic = entry.stream.removeprefix("topic:")
    if entry.envelope is None:
        return f"{time} {topic} unreadable: {entry.problem}"
    body, problem = _body(entry)
    text = f"unreadable: {problem}" if problem else to_json(body)
    if entry.envelope.claimed:
        text = shown(entry.envelope.body) or text
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]}... ({len(text):,} characters; --json shows all)"
    sender = f" from {entry.envelope.sender}" if entry.envelope.sender else ""
    return f"{time} {topic}/{entry.envelope.key} {entry.envelope.type}{sender} {text}"


def _body(entry: StreamEntry) -> tuple[Any, str]:
    from callboard.broker.errors import DecodeError

    try:
        return entry.payload(), ""
    except DecodeError as error:
        return None, str(error)
