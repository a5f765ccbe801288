"""Runs on the console."""

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from callboard import CancellationToken
from callboard.agents import Response, TaskResult, UserProxyAgent
from callboard.agents.base import Said
from callboard.code import CodeResult
from callboard.errors import DeclarationError
from callboard.memory.base import MemoryContent
from callboard.memory.llm_messages import FunctionCall, FunctionExecutionResult, Image
from callboard.messages import (
    AttemptEndedEvent,
    CodeExecutionEvent,
    MemoryQueryEvent,
    ModelClientStreamingChunkEvent,
    MultiModalMessage,
    SelectSpeakerEvent,
    TextMessage,
    ThoughtEvent,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
    UserInputRequestedEvent,
)
from callboard.models import RequestUsage
from callboard.ui import Console, UserInputManager, _cut

DONE = TaskResult(messages=[], stop_reason="enough")
USAGE = RequestUsage(3, 4)
PIXEL = "iVBORw0KGgo="


def said(text: str, source: str = "writer", **fields: Any) -> TextMessage:
    return TextMessage(content=text, source=source, **fields)


def piece(text: str, source: str = "writer", full: str | None = "1") -> ModelClientStreamingChunkEvent:
    return ModelClientStreamingChunkEvent(content=text, source=source, full_message_id=full)


async def stream(*items: Any) -> AsyncGenerator[Any, None]:
    for item in items:
        yield item


async def shown(capsys: pytest.CaptureFixture[str], *items: Any, **settings: Any) -> str:
    await Console(stream(*items, DONE), **settings)
    return capsys.readouterr().out


async def test_who_says_what(capsys: pytest.CaptureFixture[str]) -> None:
    assert await shown(capsys, said("Hello.", "user"), said("Hi.\nThere.")) == (
        "---------- TextMessage (user) ----------\nHello.\n"
        "---------- TextMessage (writer) ----------\nHi.\nThere.\n"
    )


async def test_the_last_result_is_returned(capsys: pytest.CaptureFixture[str]) -> None:
    response = Response(chat_message=said("Hi."))

    assert await Console(stream(said("a"), DONE)) is DONE
    assert await Console(stream(said("a"), response)) is response
    assert capsys.readouterr().out.endswith("---------- writer ----------\nHi.\n")


async def test_without_a_result_it_fails() -> None:
    with pytest.raises(DeclarationError, match="No TaskResult or Response was processed"):
        await Console(stream(said("a")))
    assert issubclass(DeclarationError, ValueError)


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            ToolCallRequestEvent(
                content=[
                    FunctionCall(id="1", name="weather", arguments='{"city": "Ulm"}'),
                    FunctionCall(id="2", name="now", arguments="{}"),
                ],
                source="a",
            ),
            'weather({"city": "Ulm"})\nnow({})',
        ),
        (
            ToolCallExecutionEvent(
                content=[
                    FunctionExecutionResult(content="sunny", name="weather", call_id="1", is_error=False),
                    FunctionExecutionResult(content="no clock", name="now", call_id="2", is_error=True),
                ],
                source="a",
            ),
            "weather: sunny\nnow failed: no clock",
        ),
        (
            MemoryQueryEvent(content=[MemoryContent(content="a fact", mime_type="text/plain")], source="a"),
            "a fact",
        ),
        (SelectSpeakerEvent(content=["a", "b"], source="a"), "a, b"),
        (ThoughtEvent(content="Hm.", source="a"), "Hm."),
        (CodeExecutionEvent(retry_attempt=0, result=CodeResult(0, "out"), source="a"), "out"),
        (MultiModalMessage(content=["look:", Image(data=PIXEL)], source="a"), "look:\n<image>"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_events_in_words(capsys: pytest.CaptureFixture[str], event: Said, text: str) -> None:
    assert await shown(capsys, event) == f"---------- {type(event).__name__} (a) ----------\n{text}\n"


# Streamed texts


async def test_pieces_are_shown_as_they_come_and_the_whole_is_not_shown_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert await shown(capsys, piece("Hel"), piece("lo."), said("Hello."), said("Next.")) == (
        "---------- ModelClientStreamingChunkEvent (writer) ----------\nHello.\n"
        "---------- TextMessage (writer) ----------\nNext.\n"
    )


async def test_the_same_for_a_response(capsys: pytest.CaptureFixture[str]) -> None:
    await Console(stream(piece("Hel"), piece("lo."), Response(chat_message=said("Hello."))))

    assert capsys.readouterr().out == (
        "---------- ModelClientStreamingChunkEvent (writer) ----------\nHello.\n"
    )


async def test_what_follows_a_streamed_text_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    out = await shown(capsys, piece("Hello."), ThoughtEvent(content="Hm.", source="writer"))

    assert out.endswith("Hello.\n---------- ThoughtEvent (writer) ----------\nHm.\n")


async def test_speakers_at_once_are_not_mixed(capsys: pytest.CaptureFixture[str]) -> None:
    out = await shown(
        capsys, piece("One", "a", "1"), piece("Two", "b", "2"), said("One", "a"), said("Two", "b")
    )

    assert out == (
        "---------- ModelClientStreamingChunkEvent (a) ----------\nOne\n"
        "---------- ModelClientStreamingChunkEvent (b) ----------\nTwo\n"
        "---------- TextMessage (a) ----------\nOne\n"
        "---------- TextMessage (b) ----------\nTwo\n"
    )


async def test_an_attempt_that_ended_is_told_and_begins_again(capsys: pytest.CaptureFixture[str]) -> None:
    out = await shown(
        capsys, piece("Once up"), AttemptEndedEvent(source="writer"), piece("Once"), said("Once")
    )

    assert out == (
        "---------- ModelClientStreamingChunkEvent (writer) ----------\nOnce up\n"
        "(writer was interrupted, and begins again)\n"
        "---------- ModelClientStreamingChunkEvent (writer) ----------\nOnce\n"
    )


async def test_a_line_that_has_begun_is_ended_when_the_stream_fails(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def failing() -> AsyncGenerator[Said | TaskResult, None]:
        yield piece("Once up")
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        await Console(failing())
    assert capsys.readouterr().out.endswith("Once up\n")


async def test_the_stream_is_closed(capsys: pytest.CaptureFixture[str]) -> None:
    closed: list[bool] = []

    async def closing() -> AsyncGenerator[Said | TaskResult, None]:
        try:
            yield DONE
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    task = asyncio.ensure_future(Console(closing()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed == [True]


# Tokens


async def test_tokens_and_a_summary_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    result = TaskResult(messages=[said("a"), said("b")], stop_reason="enough")
    await Console(
        stream(said("a", models_usage=USAGE), said("b", models_usage=USAGE), result), output_stats=True
    )

    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "---------- TextMessage (writer) ----------",
        "a",
        "[Prompt tokens: 3, Completion tokens: 4]",
    ]
    assert lines[6:11] == [
        "---------- Summary ----------",
        "Number of messages: 2",
        "Finish reason: enough",
        "Total prompt tokens: 6",
        "Total completion tokens: 8",
    ]
    assert lines[11].startswith("Duration: ")


async def test_the_duration_of_a_run_that_had_ended_before_is_the_time_between_its_messages(
    capsys: pytest.CaptureFixture[str],
) -> None:
    began = datetime(2026, 1, 1, tzinfo=UTC)
    first, last = said("a", created_at=began), said("b", created_at=began + timedelta(seconds=90))
    await Console(stream(first, last, TaskResult(messages=[first, last])), output_stats=True)

    assert "Duration: 90.00 seconds" in capsys.readouterr().out


async def test_a_response_has_a_summary_too(capsys: pytest.CaptureFixture[str]) -> None:
    response = Response(chat_message=said("a", models_usage=USAGE), inner_messages=[said("b")])
    await Console(stream(response), output_stats=True)

    out = capsys.readouterr().out
    assert "Number of inner messages: 1\nTotal prompt tokens: 3\nTotal completion tokens: 4\n" in out
    assert "Finish reason" not in out


async def test_tokens_of_an_attempt_that_ended_do_not_count_twice(capsys: pytest.CaptureFixture[str]) -> None:
    thought = ThoughtEvent(content="Hm.", source="writer", models_usage=USAGE)
    out = await shown(
        capsys,
        thought,
        AttemptEndedEvent(source="writer", void_ids=[thought.id]),
        thought.model_copy(update={"id": "again"}),
        output_stats=True,
    )

    assert "Total prompt tokens: 3\n" in out


# What a terminal must not obey

EVIL = "\x1b[2J\x1b]0;title\x07\r\x9b31m"
HARMLESS = "\\u001b[2J\\u001b]0;title\\u0007\\u000d\\u009b31m"


@pytest.mark.parametrize(
    "item",
    [
        said(EVIL),
        said("x", EVIL),
        piece(EVIL),
        piece("x", EVIL),
        ThoughtEvent(content=EVIL, source="a"),
        ToolCallRequestEvent(content=[FunctionCall(id="1", name=EVIL, arguments="{}")], source="a"),
        ToolCallExecutionEvent(
            content=[FunctionExecutionResult(content=EVIL, name="f", call_id="1", is_error=False)], source="a"
        ),
        MultiModalMessage(content=[EVIL], source="a"),
        SelectSpeakerEvent(content=[EVIL], source="a"),
        AttemptEndedEvent(source=EVIL),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_control_characters_are_shown_and_not_obeyed(
    capsys: pytest.CaptureFixture[str], item: Said
) -> None:
    out = await shown(capsys, item, output_stats=True)

    assert HARMLESS in out
    assert not set(out) & set("\x1b\x07\r\x9b")


async def test_a_reason_to_stop_is_shown_without_them(capsys: pytest.CaptureFixture[str]) -> None:
    await Console(stream(TaskResult(messages=[], stop_reason=EVIL)), output_stats=True)

    assert HARMLESS in capsys.readouterr().out


class Terminal(io.StringIO):
    """A terminal; lines are 40 characters long."""

    def isatty(self) -> bool:
        return True


def use_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """For the rest of a test; no fixture, because pytest sets stdout after those."""
    made = Terminal()
    monkeypatch.setattr("sys.stdout", made)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.delenv("TERM_PROGRAM", raising=False)
    return made


@pytest.mark.parametrize(
    ("program", "no_inline_images", "data", "is_shown"),
    [
        ("iTerm.app", False, PIXEL, True),
        ("iTerm.app", True, PIXEL, False),
        ("xterm", False, PIXEL, False),
        ("iTerm.app", False, "a\x07\x1b[2J", False),
    ],
)
async def test_pictures_are_shown_where_the_terminal_can(
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    no_inline_images: bool,
    data: str,
    is_shown: bool,
) -> None:
    terminal = use_terminal(monkeypatch)
    monkeypatch.setenv("TERM_PROGRAM", program)
    image = Image.model_construct(data=data, url=None)
    message = MultiModalMessage.model_construct(content=[image], source="a", models_usage=None, id="1")

    await Console(stream(message, DONE), no_inline_images=no_inline_images)

    assert (f"\033]1337;File=inline=1:{data}\a" in terminal.getvalue()) is is_shown
    assert ("<image>" in terminal.getvalue()) is not is_shown


async def test_headings_fit_into_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch)
    await Console(stream(said("Hi.", "a_writer_with_a_long_name"), DONE))

    heading = terminal.getvalue().splitlines()[0]
    assert len(heading) == 40
    assert heading == "---------- TextMessage (a_wr… ----------"


@pytest.mark.parametrize(
    ("text", "columns", "cut"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("e\u0301e\u0301", 2, "e\u0301e\u0301"),
        ("abc", 0, "…"),
    ],
)
def test_columns_are_counted_as_terminals_do(text: str, columns: int, cut: str) -> None:
    assert _cut(text, columns) == cut


# Who reads


PROGRAM = """
import asyncio, os, sys
from callboard.agents import TaskResult
from callboard.messages import TextMessage
from callboard.ui import Console

async def stream():
    for number in range(3):
        yield TextMessage(content=f"é{number}", source="a")
    yield TaskResult(messages=[], stop_reason="enough")

result = asyncio.run(Console(stream()))
print(result.stop_reason, file=sys.stderr)
os._exit(0)  # stdout is not flushed once more
"""


def run(stdout: Any, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


def test_a_pipe_gets_it_in_its_own_encoding() -> None:
    done = run(subprocess.PIPE, PYTHONIOENCODING="ascii")

    assert done.stdout.splitlines()[1] == "\\xe90"
    assert done.stderr.strip() == "enough"


def test_a_run_goes_on_when_nobody_reads() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = run(writer)
    finally:
        os.close(writer)

    assert done.stderr.strip() == "enough"


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_run_goes_on_without_a_stdout(monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr("sys.stdout", closed if is_there else None)

    assert await Console(stream(said("a"), DONE)) is DONE


async def test_other_errors_of_stdout_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("sys.stdout", Full())

    with pytest.raises(OSError, match="No space left"):
        await Console(stream(said("a"), DONE))


# Questions


async def questions(agent: UserProxyAgent) -> AsyncGenerator[Said | Response, None]:
    yield said("What is your name?", "assistant")
    async for item in agent.on_messages_stream([], CancellationToken()):
        yield item


async def test_a_person_is_asked_when_the_console_has_come_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []

    def ask(prompt: str) -> str:
        seen.append(capsys.readouterr().out)
        return "Ada"

    manager = UserInputManager(ask)
    agent = UserProxyAgent("human", input_func=manager.get_wrapped_callback())

    result = await Console(questions(agent), user_input_manager=manager)

    assert result.chat_message.to_text() == "Ada"
    assert seen == ["---------- TextMessage (assistant) ----------\nWhat is your name?\n"]


@pytest.mark.parametrize("console_first", [True, False])
async def test_console_and_agent_may_come_to_a_question_in_any_order(console_first: bool) -> None:
    async def ask(prompt: str, token: CancellationToken | None) -> str:
        return prompt

    manager = UserInputManager(ask)
    wrapped = manager.get_wrapped_callback()

    async def agent() -> str:
        with UserProxyAgent.InputRequestContext.populate_context("1"):
            return await wrapped("?", None)

    if console_first:
        manager.notify_event_received("1")
    answer = asyncio.ensure_future(agent())
    if not console_first:
        await asyncio.sleep(0)
        assert not answer.done()
        manager.notify_event_received("1")

    assert await answer == "?"


async def test_a_question_ends_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    event = UserInputRequestedEvent(request_id="1", source="human")

    assert (await shown(capsys, piece("Well?"), event)).endswith("Well?\n")


def test_a_result_of_a_team_may_be_any_sequence() -> None:
    kept: Sequence[Said] = (said("a"),)
    assert TaskResult(messages=kept).messages[0] is kept[0]


async def test_a_run_that_is_not_to_be_read_is_refused() -> None:
    async def run() -> TaskResult:
        return DONE

    not_begun: Any = run()
    result: Any = DONE
    with pytest.raises(DeclarationError, match=r"give it team\.run_stream\(task=\.\.\.\), without `await`"):
        await Console(not_begun)
    with pytest.raises(DeclarationError, match="and not a TaskResult"):
        await Console(result)
