"""Runs over HTTP: real sockets, a real server, door processes that are killed, tenants that look for each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from callboard.web import door_id
from tests.helpers.door_processes import DoorProcesses, worked
from tests.helpers.servers import ServerProcess

TARGET = "tests.helpers.running_team:app"
END = ("completed", "error")


@pytest.fixture(scope="module")
def where(shared_server: ServerProcess) -> Iterator[list[str]]:
    with worked(TARGET, shared_server.url) as options:
        yield options


@pytest.fixture
def doors(where: list[str], tmp_path: Path) -> Iterator[DoorProcesses]:
    made = DoorProcesses(TARGET, [*where, "--all"], tmp_path)
    yield made
    made.close()


def client(address: str, name: str = "ada") -> httpx.Client:
    return httpx.Client(base_url=f"{address}/api/v1", headers={"Authorization": f"Bearer {name}"}, timeout=30)


def read(http: httpx.Client, run: str, last: str = "", most: int = 1000) -> list[tuple[str, str]]:
    """Numbers and types of the events of a run, behind a number."""
    found: list[tuple[str, str]] = []
    headers = {"Last-Event-ID": last} if last else {}
    with http.stream("GET", f"/runs/{run}/events", headers=headers) as stream:
        number = ""
        for line in stream.iter_lines():
            if line.startswith("id: "):
                number = line[4:]
            elif line.startswith("event: "):
                found.append((number, line[7:]))
            if len(found) == most or (found and found[-1][1] in END):
                break
    return found


async def test_a_reader_goes_on_at_another_door_when_its_own_was_killed(doors: DoorProcesses) -> None:
    first, one = await doors.open()
    _, two = await doors.open()
    with client(one) as http:
        begun = http.post(
            "/services/counters/runs", json={"task": "Count."}, headers={"Idempotency-Key": "k"}
        )
        assert begun.status_code == 202, begun.text
        run = begun.json()["id"]
        before = read(http, run, most=2)
        first.kill()
    with client(two) as http:
        after = read(http, run, before[-1][0])
        assert before + after == read(http, run)
        assert after[-1][1] == "completed"
        again = http.post(
            "/services/counters/runs", json={"task": "Count."}, headers={"Idempotency-Key": "k"}
        )
        assert again.json()["id"] == run
        other = http.post("/services/counters/runs", json={"task": "No."}, headers={"Idempotency-Key": "k"})
        assert other.status_code == 422
        shown = http.get(f"/runs/{run}/result?wait=20").json()
        assert (shown["state"], shown["text"]) == ("completed", "Count.|1|1|2|2")
        ended = http.get(f"/runs/{run}/events", headers={"Last-Event-ID": after[-1][0]})
        assert ended.status_code == 204


async def test_tenants_do_not_find_each_other(doors: DoorProcesses) -> None:
    _, address = await doors.open()
    with client(address) as ada, client(address, "bob") as bob:
        run = ada.post("/services/counters/runs", json={"task": "Mine.", "conversation": "c"}).json()["id"]
        for path in ("", "/events", "/result"):
            assert bob.get(f"/runs/{run}{path}").status_code == 404
        assert bob.post(f"/runs/{run}/cancel").status_code == 404
        assert bob.get("/runs", params={"after": run}).status_code == 404
        assert run not in [one["id"] for one in bob.get("/runs").json()["runs"]]
        assert run in [one["id"] for one in ada.get("/runs").json()["runs"]]
        shown = ada.get(f"/runs/{run}").json()
        assert shown["conversation"] == "c"
        assert door_id("counters", "c", shown["run_id"]) == run
        ada.get(f"/runs/{run}/result?wait=20")


async def test_what_can_not_be_taken_is_a_problem_and_no_fault(doors: DoorProcesses) -> None:
    _, address = await doors.open()
    path, kind = "/services/counters/runs", {"Content-Type": "application/json"}
    with client(address) as http:
        cases = [
            (http.get("/services", headers={"Authorization": "Bearer x"}), 401),
            (http.get("/services", headers={"Host": "evil.example"}), 421),
            (http.post(path, json={"task": "a"}, headers={"Origin": "https://evil.example"}), 403),
            (http.post("/services/none/runs", json={"task": "a"}), 404),
            (http.post(path, content=b"{", headers=kind), 400),
            (http.post(path, content=b"[" * 70 + b"]" * 70, headers=kind), 400),
            (http.post(path, content=b'{"task": "' + b'\\"' * 400_000, headers=kind), 400),
            (http.post(path, content=b'{"task": "a"}'), 415),
            (http.post(path, json={"task": "a", "conversaton": "b"}), 422),
            (http.post(path, content=b" " * 1_000_001, headers=kind), 413),
            (http.get("/runs/none"), 404),
            (http.post("/questions/none", json={"answer": 1}), 404),
            (http.get("/nothing"), 404),
        ]
        for answer, status in cases:
            assert answer.status_code == status, answer.text
            assert answer.json()["status"] == status
        assert "/api/v1/runs/{id}/events" in http.get("/openapi.json").json()["paths"]
