"""Teams as tools of an MCP client: its own client over stdio and HTTP, in both protocols, and doors that are killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import httpx2
import mcp_types as types
import psutil
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from callboard.tools.mcp import McpWorkbench, StdioServerParams
from tests.helpers.door_processes import DoorProcesses, worked
from tests.helpers.eventually import eventually
from tests.helpers.servers import ServerProcess

TARGET = "tests.helpers.served_desk:app"
TALKING = "tests.helpers.talking_team:app"
Mode = Literal["legacy", "auto"]
MODES: tuple[Mode, ...] = ("legacy", "auto")


@pytest.fixture(scope="module")
def where(shared_server: ServerProcess) -> Iterator[list[str]]:
    with worked(TARGET, shared_server.url) as options:
        yield options


def stdio(where: list[str], *more: str) -> StdioServerParameters:
    command = ["-P", "-m", "callboard", "mcp", TARGET, *where, *more]
    return StdioServerParameters(command=sys.executable, args=command, env={**os.environ})


async def says_yes(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    assert isinstance(params, types.ElicitRequestFormParams)
    return types.ElicitResult(
        action="accept", content={"answer": f"yes to {params.message.partition(':')[0]}"}
    )


def text_of(result: types.CallToolResult) -> str:
    return "".join(part.text for part in result.content if isinstance(part, types.TextContent))


@pytest.mark.parametrize("mode", MODES)
async def test_a_team_is_a_tool_over_stdio(where: list[str], mode: Mode) -> None:
    heard: list[tuple[float, str | None]] = []

    async def heard_of(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, message))

    async with Client(stdio(where), mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"desk", "bank", "callboard_run", "callboard_answer", "callboard_cancel"}
        assert tools["desk"].description == "Answers questions."
        assert tools["desk"].input_schema["required"] == ["task"]
        result = await client.call_tool("desk", {"task": "Hello."}, progress_callback=heard_of)
        assert (text_of(result), result.is_error) == ("You said: Hello.", False)
        assert result.structured_content is not None
        assert result.structured_content["state"] == "completed"
        assert [number for number, _ in heard] == sorted({number for number, _ in heard})
        assert any("You said: Hello." in (text or "") for _, text in heard)


@pytest.mark.parametrize("mode", MODES)
async def test_a_question_is_put_to_the_person_before_the_client(where: list[str], mode: Mode) -> None:
    async with Client(stdio(where), mode=mode, elicitation_callback=says_yes) as client:
        result = await client.call_tool("bank", {"task": "Pay 5."})
        assert text_of(result) == "You said: yes to boss"


async def test_a_client_that_asks_nobody_is_told_how_to_answer(where: list[str]) -> None:
    async with Client(stdio(where)) as client:
        asked = await client.call_tool("bank", {"task": "Pay 6."})
        assert "A person has to answer boss" in text_of(asked)
        run = asked.structured_content
        assert run is not None
        [question] = run["questions"]
        given = {"question": question["id"], "answer": "no"}
        assert not (await client.call_tool("callboard_answer", given)).is_error
        ended = await client.call_tool("callboard_run", {"run": run["id"], "wait": 30})
        assert text_of(ended) == "You said: no"
        again = await client.call_tool("callboard_answer", given)
        assert again.is_error
        assert "answered" in text_of(again)


async def test_what_is_wrong_with_a_call_is_said_to_the_model(where: list[str]) -> None:
    async with Client(stdio(where)) as client:
        for name, arguments, said in (
            ("kitchen", {"task": "Cook."}, "there is no service 'kitchen'"),
            ("desk", {}, "task: Field required"),
            ("desk", {"task": "x", "tusk": "y"}, "tusk: Extra inputs"),
            ("callboard_run", {"run": "none"}, "there is no such run"),
            ("callboard_answer", {"question": "none", "answer": "x"}, "none"),
        ):
            result = await client.call_tool(name, arguments)
            assert result.is_error
            assert said in text_of(result)


async def test_our_own_workbench_calls_a_team(where: list[str]) -> None:
    command = ["-P", "-m", "callboard", "mcp", TARGET, *where]
    async with McpWorkbench(StdioServerParams(command=sys.executable, args=command)) as workbench:
        assert "desk" in [tool["name"] for tool in await workbench.list_tools()]
        result = await workbench.call_tool("desk", {"task": "Hi."})
        assert result.to_text() == "You said: Hi."


# Over HTTP


@asynccontextmanager
async def over_http(address: str, name: str, **options: Any) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {name}"}, timeout=30) as http,
        Client(streamable_http_client(f"{address}/mcp", http_client=http), **options) as client,
    ):
        yield client


@pytest.fixture
def desks(where: list[str], tmp_path: Path) -> Iterator[DoorProcesses]:
    made = DoorProcesses(TARGET, where, tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("mode", MODES)
async def test_a_team_is_a_tool_over_http_and_tenants_do_not_find_each_other(
    desks: DoorProcesses, mode: Mode
) -> None:
    _, address = await desks.open()
    async with over_http(address, "ada", mode=mode) as ada, over_http(address, "bob", mode=mode) as bob:
        result = await ada.call_tool("desk", {"task": "Hello.", "conversation": "c"})
        assert text_of(result) == "You said: Hello."
        assert result.structured_content is not None
        assert result.structured_content["conversation"] == "c"
        found = await bob.call_tool("callboard_run", {"run": result.structured_content["id"]})
        assert found.is_error
        assert "there is no such run" in text_of(found)


async def test_a_question_is_answered_at_another_door_when_the_first_was_killed(desks: DoorProcesses) -> None:
    first, one = await desks.open()
    _, two = await desks.open()
    async with over_http(one, "ada", elicitation_callback=says_yes) as client:
        asked = await client.session.call_tool("bank", {"task": "Pay 7."}, allow_input_required=True)
        assert isinstance(asked, types.InputRequiredResult)
    first.kill()
    assert asked.input_requests
    [question] = asked.input_requests
    said: types.InputResponses = {question: types.ElicitResult(action="accept", content={"answer": "yes"})}
    async with over_http(two, "ada", elicitation_callback=says_yes) as client:
        result = await client.session.call_tool(
            "bank", {"task": "Pay 7."}, input_responses=said, request_state=asked.request_state
        )
        assert text_of(result) == "You said: yes"
    async with over_http(two, "bob", elicitation_callback=says_yes) as client:
        stolen = await client.session.call_tool(
            "bank", {"task": "Pay 7."}, input_responses=said, request_state=asked.request_state
        )
        assert "there is no such run" in text_of(stolen)


async def test_a_question_of_another_tenant_looks_like_one_that_there_is_not(desks: DoorProcesses) -> None:
    _, address = await desks.open()
    async with over_http(address, "ada") as ada, over_http(address, "bob") as bob:
        asked = await ada.call_tool("bank", {"task": "Pay 9."})
        assert asked.structured_content is not None
        [question] = asked.structured_content["questions"]
        texts = set()
        for name in (question["id"], "none"):
            refused = await bob.call_tool("callboard_answer", {"question": name, "answer": "yes"})
            assert refused.is_error
            texts.add(text_of(refused).replace(name, "X"))
        assert len(texts) == 1
        await ada.call_tool("callboard_cancel", {"run": asked.structured_content["id"]})


async def test_calls_whose_clients_vanish_hold_no_place_and_a_door_that_ends_waits_for_none(
    shared_server: ServerProcess, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"  # until it is there the model has not ended its answer
    arguments = {"name": "words", "arguments": {"task": f"Wait {gate}"}}
    call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": arguments})
    with worked(TALKING, shared_server.url) as where:
        made = DoorProcesses(TALKING, where, tmp_path)
        try:
            door, address = await made.open()
            async with over_http(address, "ada") as ada:
                await ada.call_tool("echo", {"task": "Load."})
            host, port = address.removeprefix("http://").split(":")
            head = (
                f"POST /mcp HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer ada\r\n"
                "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
                f"Content-Length: {len(call)}\r\n\r\n{call}"
            )
            process = psutil.Process(door.pid)
            before = process.num_fds()
            with contextlib.ExitStack() as waiting:
                for _ in range(10):
                    connection = waiting.enter_context(socket.create_connection((host, int(port))))
                    connection.sendall(head.encode())
                # A connection of each client, and one that reads its run; some of the client before them may end meanwhile.
                await eventually(lambda: process.num_fds() >= before + 15, 30)
            await eventually(lambda: process.num_fds() <= before + 3, 30)
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(head.encode())
                await eventually(lambda: process.num_fds() >= before + 2, 30)
                os.kill(door.pid, signal.SIGTERM)
                await eventually(lambda: not door.is_alive, 20)
            assert door.exit_code == 0
        finally:
            gate.touch()
            made.close()


async def test_what_is_no_request_is_refused_without_a_fault(desks: DoorProcesses) -> None:
    _, door = await desks.open()
    address = f"{door}/mcp"
    ada = {"Authorization": "Bearer ada", "Accept": "application/json, text/event-stream"}
    as_json = {**ada, "Content-Type": "application/json"}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "desk", "arguments": []}}
    async with httpx2.AsyncClient(timeout=20) as http:
        answers = [
            await http.post(address, headers={**as_json, "Authorization": "Bearer x"}, json=call),
            await http.post(address, headers={**as_json, "Origin": "https://evil.example"}, json=call),
            await http.post(address, headers={**as_json, "Host": "evil.example"}, json=call),
            await http.post(address, headers=as_json, content=b"{"),
            await http.post(address, headers=as_json, content=b"[" * 100_000),
            await http.post(address, headers=as_json, content=b" " * 1_000_001),
            await http.post(address, headers=as_json, content=json.dumps(call | {"method": "nothing"})),
            await http.post(address, headers=as_json, content=json.dumps(call)),
            await http.get(address, headers=ada),
            await http.delete(address, headers=ada),
        ]
    assert [one.status_code for one in answers[:3]] == [401, 403, 421]
    assert all(one.status_code < 500 for one in answers), [
        (one.status_code, one.text[:100]) for one in answers
    ]
    assert not any("Traceback" in one.text for one in answers)
    assert answers[5].status_code == 413
    assert [one.status_code for one in answers[-2:]] == [405, 405]


async def test_ctrl_c_ends_the_command(where: list[str]) -> None:
    command = stdio(where)
    process = subprocess.Popen(
        [command.command, *command.args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        asked = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": asked})
        process.stdin.write(f"{line}\n".encode())
        process.stdin.flush()
        assert b"serverInfo" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
        assert (process.returncode, said) == (130, b"")
    finally:
        process.kill()
        process.wait()


async def test_the_command_ends_with_its_client_and_its_run_goes_on(where: list[str]) -> None:
    async with Client(stdio(where)) as client:
        begun = await client.call_tool("bank", {"task": "Pay 8."})
        run = begun.structured_content
        assert run is not None
    async with Client(stdio(where)) as client:
        shown = await client.call_tool("callboard_run", {"run": run["id"]})
        assert shown.structured_content is not None
        assert shown.structured_content["state"] == "input_required"
        await client.call_tool("callboard_cancel", {"run": run["id"]})
        shown = await client.call_tool("callboard_run", {"run": run["id"], "wait": 30})
        assert "is cancelled" in text_of(shown)
