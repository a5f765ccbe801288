"""Runs over HTTP: questions for people, what a token may do, and doors that are told to end while somebody reads."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.helpers.door_processes import DoorProcesses, worked
from tests.helpers.eventually import eventually
from tests.helpers.processes import Process
from tests.helpers.servers import ServerProcess

from .test_doors import client

TARGET = "tests.helpers.served_desk:app"
TOKENS = {
    "ada": 'tenant = "acme"',
    "bob": 'tenant = "other"',
    "eve": 'tenant = "acme"\nscopes = ["read"]',
    "kim": 'tenant = "acme"\nservices = ["desk"]',
}


@pytest.fixture(scope="module")
def where(shared_server: ServerProcess) -> Iterator[list[str]]:
    with worked(TARGET, shared_server.url) as options:
        yield options


@pytest.fixture
def doors(where: list[str], tmp_path: Path) -> Iterator[DoorProcesses]:
    made = DoorProcesses(TARGET, where, tmp_path, TOKENS)
    yield made
    made.close()


def process_of(door: Process) -> psutil.Process:
    return psutil.Process(door.pid)


def begun(http: httpx.Client) -> str:
    return str(http.post("/services/bank/runs", json={"task": "Pay 5."}).json()["id"])


async def a_question(http: httpx.Client) -> tuple[str, dict[str, Any]]:
    """A run that waits for its boss, and the question."""
    run = begun(http)

    def questions() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = http.get("/questions", params={"run": run}).json()["questions"]
        return found

    await eventually(questions, 20)
    [question] = questions()
    return run, question


async def test_a_question_is_answered_once_and_by_those_who_may(doors: DoorProcesses) -> None:
    _, address = await doors.open()
    with (
        client(address) as ada,
        client(address, "bob") as bob,
        client(address, "eve") as eve,
        client(address, "kim") as kim,
    ):
        run, question = await a_question(ada)
        shown = ada.get(f"/runs/{run}").json()
        assert (shown["state"], shown["questions"]) == ("input_required", [question])
        assert question["run"] == run
        path, yes = f"/questions/{question['id']}", {"answer": "yes"}
        for other in (bob, kim):
            assert other.get("/questions").json()["questions"] == []
            assert other.get("/questions", params={"run": run}).status_code == 404
            assert other.post(path, json=yes).status_code == 404
        assert [one["id"] for one in eve.get("/questions").json()["questions"]] == [question["id"]]
        assert eve.post(path, json=yes).status_code == 403
        assert ada.post(path, json={"answer": {"not": "a text"}}).status_code == 422
        assert ada.post(path, json={}).status_code == 422
        assert ada.post(path, json=yes).json() == {"done": True}
        assert ada.post(path, json={"answer": "no"}).status_code == 409
        ended = ada.get(f"/runs/{run}/result?wait=20").json()
        assert (ended["state"], ended["text"]) == ("completed", "You said: yes")
        assert ended["questions"] == []


async def test_what_a_token_may_not_do_is_refused_and_changes_nothing(doors: DoorProcesses) -> None:
    _, address = await doors.open()
    with client(address) as ada, client(address, "eve") as eve, client(address, "kim") as kim:
        run, _ = await a_question(ada)
        assert eve.post("/services/bank/runs", json={"task": "Pay."}).status_code == 403
        for order in ("cancel", "pause", "resume"):
            assert eve.post(f"/runs/{run}/{order}").status_code == 403
            assert kim.post(f"/runs/{run}/{order}").status_code == 404
        assert [one["name"] for one in kim.get("/services").json()["services"]] == ["desk"]
        assert kim.post("/services/bank/runs", json={"task": "Pay."}).status_code == 404
        assert eve.get(f"/runs/{run}").json()["state"] == "input_required"
        assert ada.post(f"/runs/{run}/cancel").status_code in (200, 202)
        await eventually(lambda: ada.get(f"/runs/{run}").json()["state"] == "cancelled", 20)
        # The manager has ended it; whoever asks hears it a moment later.
        await eventually(lambda: ada.get("/questions", params={"run": run}).json()["questions"] == [], 20)


async def test_a_door_that_is_told_to_end_lets_its_readers_go_to_another(doors: DoorProcesses) -> None:
    first, one = await doors.open()
    _, two = await doors.open()
    with client(one) as http:
        run, question = await a_question(http)
        numbers: list[str] = []
        with http.stream("GET", f"/runs/{run}/events") as stream:
            for line in stream.iter_lines():
                if line.startswith("id: "):
                    numbers.append(line[4:])
                if line.startswith("event: async_input_request"):
                    os.kill(first.pid, signal.SIGTERM)
        # The stream has ended, and not broken: whoever reads it knows that nothing is missing.
        await eventually(lambda: not first.is_alive, 20)
        assert first.exit_code == 0
    with client(two) as http:
        http.post(f"/questions/{question['id']}", json={"answer": "yes"})
        http.get(f"/runs/{run}/result?wait=20")
        with http.stream("GET", f"/runs/{run}/events", headers={"Last-Event-ID": numbers[-1]}) as stream:
            after = [line for line in stream.iter_lines() if line.startswith(("id: ", "event: "))]
    assert after[-1] == "event: completed"
    rest = [int(line[4:]) for line in after if line.startswith("id: ")]
    assert rest == sorted(rest)
    assert rest[0] >= int(numbers[-1])


async def test_readers_who_vanish_or_take_nothing_hold_no_place(doors: DoorProcesses) -> None:
    process, address = await doors.open()
    host, port = address.removeprefix("http://").split(":")
    with client(address) as http:
        run, _ = await a_question(http)
        before = process_of(process).num_fds()
        path = f"/api/v1/runs/{run}/events"
        for _ in range(20):
            with socket.create_connection((host, int(port))) as reader:
                head = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer ada\r\n\r\n"
                reader.sendall(head.encode())
                assert reader.recv(100).startswith(b"HTTP/1.1 200")

        await eventually(lambda: process_of(process).num_fds() <= before + 3, 30)
        http.post(f"/runs/{run}/cancel")
