"""`callboard publish`: messages to a topic."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from callboard.cli.exits import BAD_USE, CommandFailed, bad_use
from callboard.cli.messages import MessageForm
from callboard.cli.options import Body, Fields, Namespace, Target, Url, duration, positive_duration
from callboard.cli.output import hint, progress, say
from callboard.cli.sessions import publisher, run

if TYPE_CHECKING:
    from callboard.runtime.runtime import RedisAgentRuntime

BATCH = 500  # messages on their way at once

# The options, by name, so that the command's signature can be read at a glance.
Key = Annotated[str, typer.Option(help="Key of the agents that handle it: the source of the topic.")]
Delay = Annotated[
    float | None,
    typer.Option(metavar="DURATION", parser=duration, help="Deliver it that much later: 90s, 1h30m."),
]
At = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Deliver it then: ISO 8601, such as 2027-01-31T09:00+01:00; no zone: local time.",
    ),
]
ExpiresIn = Annotated[
    float | None,
    typer.Option(
        metavar="DURATION",
        parser=positive_duration,
        help="Drop it when no handler began with it so soon after it was due.",
    ),
]
MessageId = Annotated[
    str | None,
    typer.Option(
        "--id", metavar="ID", help="Publishing the same id again does nothing. With --file, ID:LINE is used."
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Publish nothing, and exit with 5, where no agent would handle it.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishTo:
    """The topic that messages go to, and the time.

    Attributes:
        topic: Topic type.
        key: Topic source: the key of the agents that get it.
        delay: Seconds, or None.
        at: When to deliver it, or None.
        expires_in: Seconds, from when it is due, within which a handler has to begin with it, or None.
        message_id: Idempotency id; for several messages the number of the line is added.
    """

    topic: str
    key: str
    delay: float | None
    at: datetime | None
    expires_in: float | None
    message_id: str | None

    async def send(self, runtime: RedisAgentRuntime, message: Any, line: int | None = None) -> None:
        """Publish one message."""
        from callboard.broker import TopicId

        name = self.message_id if self.message_id is None or line is None else f"{self.message_id}:{line}"
        topic_id = TopicId(self.topic, self.key)
        await runtime.publish_message(
            message, topic_id, message_id=name, delay=self.delay, at=self.at, expires_in=self.expires_in
        )


def publish(
    target: Target,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic, such as visits.")],
    message_type: Annotated[str, typer.Argument(metavar="TYPE", help="The message class, such as Visit.")],
    fields: Fields = None,
    body: Body = None,
    file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Many messages: a file with one JSON text per line; - is stdin."),
    ] = None,
    key: Key = "default",
    delay: Delay = None,
    at: At = None,
    expires_in: ExpiresIn = None,
    message_id: MessageId = None,
    strict: Strict = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Publish a message, or many from a file. They are checked against their class first.

    A file is checked as a whole before the first message leaves; stdin line by line, as it comes.

      callboard publish counting:app visits Visit name=Ada
      callboard publish counting:app visits Visit --body '{"name": "Ada"}' --key museum --delay 1h30m
      callboard publish counting:app visits Visit --file visits.jsonl --id import-7
      cat visits.jsonl | callboard publish counting:app visits Visit --file -
    """
    from callboard.process.loader import load_app

    if (body is not None) + (file is not None) + bool(fields) > 1:
        bad_use("give the fields, --body or --file, only one of them")
    if delay is not None and at is not None:
        bad_use("give --delay or --at, not both")
    destination = PublishTo(
        topic=topic, key=key, delay=delay, at=read_time(at), expires_in=expires_in, message_id=message_id
    )
    app = load_app(target)

    async def work(lines: TextIO | None) -> int:
        async with publisher(app, url, namespace) as runtime:
            form = MessageForm(runtime.registry, message_type)
            await ask_who_hears(runtime, form, topic, strict)
            if lines is not None:
                return await _publish_lines(runtime, form, destination, lines)
            message = form.from_json(body) if body is not None else form.from_fields(fields or [])
            await destination.send(runtime, message)
            return 1

    with _lines(file) as lines:
        count = run(work(lines))
    say(f"published {count:,} {message_type} to {topic}/{key}")


async def ask_who_hears(runtime: RedisAgentRuntime, form: MessageForm, topic: str, strict: bool) -> None:
    """Say when no agent type would hear the messages.

    Raises:
        UnheardError: None would, and that was forbidden.
    """
    from callboard.errors import UnheardError

    reason = await runtime.unheard(runtime.registry.entry(form.name).cls, topic)
    if reason is None:
        return
    if strict:
        raise UnheardError(topic, reason)
    hint(reason)


def read_time(text: str | None) -> datetime | None:
    """An ISO 8601 time; without a zone it is local."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        bad_use(f"--at {text}: not an ISO 8601 time such as 2027-01-31T09:00 or 2027-01-31T09:00+01:00")


@contextlib.contextmanager
def _lines(file: str | None) -> Iterator[TextIO | None]:
    if file is None or file == "-":
        yield sys.stdin if file else None
        return
    try:
        with Path(file).open(encoding="utf-8") as lines:
            yield lines
    except UnicodeDecodeError as error:
        raise CommandFailed(f"{file} is not UTF-8 text: {error}", BAD_USE) from error


async def _publish_lines(
    runtime: RedisAgentRuntime, form: MessageForm, destination: PublishTo, lines: TextIO
) -> int:
    if not lines.seekable():
        return await _send_all(runtime, destination, _messages(form, _numbered(lines)))
    start = lines.tell()
    total = sum(1 for _ in _messages(form, _numbered(lines)))
    lines.seek(start)
    return await _send_all(runtime, destination, _messages(form, _numbered(lines)), total)


def _numbered(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    return ((number, line) for number, line in enumerate(lines, 1) if line.strip())


def _messages(form: MessageForm, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Any]]:
    for number, line in lines:
        try:
            yield number, form.from_json(line)
        except CommandFailed as error:
            raise CommandFailed(f"line {number}: {error}", BAD_USE) from error


async def _send_all(
    runtime: RedisAgentRuntime,
    destination: PublishTo,
    messages: Iterator[tuple[int, Any]],
    total: int | None = None,
) -> int:
    sent = 0
    with progress("publishing", total) as advance:
        try:
            while batch := await asyncio.to_thread(_take, messages, BATCH if total is not None else 1):
                await asyncio.gather(*[destination.send(runtime, message, line) for line, message in batch])
                sent += len(batch)
                advance(len(batch))
        except CommandFailed as error:
            raise CommandFailed(f"{error}; {sent:,} messages before it were published", error.code) from error
    return sent


def _take(messages: Iterator[tuple[int, Any]], most: int) -> list[tuple[int, Any]]:
    return list(itertools.islice(messages, most))
