"""Runs of programs that are not async: scripts, and notebooks, where an event loop is running."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

import pytest

from callboard import RedisAgentRuntime
from callboard.errors import MisuseError
from callboard.runs import (
    ConsoleProcessor,
    RunCancelledError,
    a_process_run_response,
    a_run,
    attach,
    is_input_request,
    process_run_response,
    run,
)
from tests.helpers.run_agents import call, chatterer, speaker


def test_a_program_reads_events_and_results() -> None:
    response = run(chatterer("a"), chatterer("b"), message="Hi", max_turns=2)
    first, second = list(response.events), list(response.events)
    assert first == second
    assert list(response.events_from(first[2].number)) == first[3:]
    assert [message["sender"] for message in response.messages] == ["user", "a", "b"]
    assert (response.summary, response.last_speaker, response.state) == ("b speaks", "b", "completed")
    assert response.result().stop_reason == "Maximum number of turns 2 reached."
    assert {part.agent for part in response.cost.parts} == {"a", "b"}


async def test_it_works_where_an_event_loop_is_running() -> None:
    assert run(chatterer("a"), message="Hi", max_turns=1).summary == "a speaks"


def test_questions_are_answered_in_the_loop_and_on_the_console(capsys: pytest.CaptureFixture[str]) -> None:
    asks = {"human_input_mode": "ALWAYS", "max_consecutive_auto_reply": 1}
    response = run(speaker("a", **asks), message="Hi", max_turns=1)
    for event in response.events:
        if is_input_request(event):
            assert response.state == "input_required"
            event.respond("my answer")
    assert response.summary == "my answer"

    response = run(speaker("a", **asks), message="Hi", max_turns=1)
    process_run_response(response, ConsoleProcessor(ask=lambda prompt: "typed"))
    assert "typed" in capsys.readouterr().out


async def test_the_console_shows_async_runs_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    agent = speaker("a", call("add", a=1, b=2), "3\x1b[2J")
    response = await a_run(agent, message="1 + 2?", tools=[add])
    await a_process_run_response(response, ConsoleProcessor(ask=lambda prompt: ""))
    shown = capsys.readouterr().out
    assert "a called add" in shown
    assert "add returned 3" in shown
    assert "\x1b[2J" not in shown


def test_cancel_ends_it_and_leaving_a_loop_does_not() -> None:
    response = run(chatterer("a"), message="Hi", max_turns=30)
    for _ in response.events:
        break
    assert len(response.messages) == 31

    endless = run(chatterer("a"), chatterer("b"), message="Hi", max_turns=None)
    for event in endless.events:
        if event.source == "b":
            break
    endless.cancel()
    assert endless.state == "cancelled"
    with pytest.raises(RunCancelledError):
        endless.result()


def test_pause_and_steps() -> None:
    response = run(chatterer("a"), message="Hi", max_turns=3, step=True)
    assert [event.type for event in response.events].count("agent_message") == 4
    response = run(chatterer("a"), message="Hi", max_turns=3, step=True)
    assert len(response.messages) == 4  # who waits for the end wants all steps


def test_an_async_function_of_a_run_can_not_wait_for_another_one() -> None:
    caught: list[MisuseError] = []

    async def ask_another() -> str:
        try:
            run(chatterer("b"), message="Hi")
        except MisuseError as error:
            caught.append(error)
        return "no"

    agent = speaker("a", call("ask_another"), "done", function_map={"ask_another": ask_another})
    assert run(agent, message="Hi").summary == "done"
    assert "a_run" in str(caught[0])


def test_an_ordinary_function_of_a_run_may_wait_for_another_one() -> None:
    heard: list[str | None] = []

    def ask_another() -> str:
        heard.append(run(speaker("b", "from b"), message="Hi").summary)
        return "asked"

    agent = speaker("a", call("ask_another"), "done", function_map={"ask_another": ask_another})
    assert run(agent, message="Hi").summary == "done"
    assert heard == ["from b"]


async def test_who_is_async_is_told_what_is_for_async_programs() -> None:
    async with RedisAgentRuntime("memory://who-is-async") as runtime:
        with pytest.raises(MisuseError, match=r"await a_attach\(\.\.\.\)"):
            attach(runtime, "some run")
        with pytest.raises(MisuseError, match=r"await a_run\(\.\.\.\)"):
            run(chatterer("a"), message="Hi", runtime=runtime)


def program(body: str) -> tuple[int, str, str]:
    """Its exit code, output and errors."""
    begin = "import sys\nfrom callboard.runs import *\nfrom tests.helpers.run_agents import *\n"
    command = [sys.executable, "-c", begin + textwrap.dedent(body)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def test_a_program_ends_although_its_run_goes_on() -> None:
    ended = program(
        """
        response = run(chatterer("a"), chatterer("b"), message="Hi")
        print(response.run_id is not None)
        """
    )
    assert ended == (0, "True\n", "")


def test_ctrl_c_ends_the_run_and_the_program() -> None:
    ended = program(
        """
        import os, signal, threading, time

        def is_waiting():
            frame, names = sys._current_frames()[threading.main_thread().ident], []
            while frame is not None:
                names.append(frame.f_code.co_name)
                frame = frame.f_back
            return "_wait" in names

        def press():
            while not is_waiting():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        response = run(speaker("a", human_input_mode="ALWAYS"), message="Hi")
        try:
            for event in response.events:
                if event.type == "input_request":
                    threading.Thread(target=press).start()
        except KeyboardInterrupt:
            print(response.state)
        """
    )
    assert ended == (0, "cancelled\n", "")


def test_a_response_is_what_the_rfc_says() -> None:
    from callboard.runs import RunResponseProtocol

    response: RunResponseProtocol = run(chatterer("a"), message="Hi", max_turns=1)
    seen: list[Any] = [event.type for event in response.events]
    assert seen[-1] == "completed"
    assert response.messages[-1]["sender"] == "a"
