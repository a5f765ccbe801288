"""The dashboard as a browser and its scripts use it: who comes in, what is seen live, and what is done."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from callboard import TopicId
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.settings import BrokerSettings
from tests.helpers.door_processes import worked
from tests.helpers.eventually import eventually
from tests.helpers.processes import Process, python
from tests.helpers.servers import ServerProcess, free_port
from tests.helpers.watched_shop import Order, app

TARGET = "tests.helpers.watched_shop:app"
HOSTILE = '<img src=x onerror=alert(1)> \u202e "quoted"'


@pytest.fixture(scope="module")
def where(shared_server: ServerProcess) -> Iterator[list[str]]:
    with worked(TARGET, shared_server.url) as options:
        yield options


def client(address: str, token: str = "", path: str = "/api/v1") -> httpx.Client:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx.Client(base_url=f"{address}{path}", headers=headers, timeout=30)


@contextmanager
def dashboard(where: list[str], *more: str) -> Iterator[tuple[Process, str]]:
    """A dashboard, and what it printed: its link. It has not the code of the app."""
    process = Process(python("-m", "callboard", "dashboard", "--port", str(free_port()), *where, *more))
    try:
        yield process, ""
    finally:
        process.close()


async def link_of(process: Process) -> tuple[str, str]:
    """Its address, and the token of who began it."""

    def found() -> Any:
        return re.search(r"^(http://127\.0\.0\.1:\d+)/(?:#token=(\S+))?$", process.output(), re.MULTILINE)

    link = await eventually(found, 30, process.output)
    return link[1], link[2] or ""


@pytest.fixture
async def board(where: list[str]) -> AsyncIterator[Any]:
    """A client of a dashboard, as who began it."""
    with dashboard(where) as (process, _):
        address, token = await link_of(process)
        with client(address, token) as http:
            await eventually(lambda: "bank" in [one["type"] for one in look(http)["types"]], 30)
            yield http


def look(http: httpx.Client) -> dict[str, Any]:
    """What the next look finds."""
    with http.stream("GET", "/live") as stream:
        kind = ""
        for line in stream.iter_lines():
            if line.startswith("event: "):
                kind = line[7:]
            elif line.startswith("data: ") and kind == "look":
                found: dict[str, Any] = json.loads(line[6:])
                return found
    raise AssertionError("the stream has ended")


async def publish(where: list[str], *orders: Order) -> None:
    async with app.running(where[1], namespace=where[3], types=[]) as runtime:
        for order in orders:
            await runtime.publish_message(order, TopicId("orders", "ada"))


def type_of(http: httpx.Client, name: str) -> dict[str, Any]:
    return next(one for one in look(http)["types"] if one["type"] == name)


async def test_a_token_becomes_a_cookie_and_nothing_is_seen_without(where: list[str]) -> None:
    with dashboard(where) as (process, _):
        address, token = await link_of(process)
        with client(address, path="") as browser:
            page = browser.get("/runs/x")
            assert (page.status_code, "default-src 'none'" in page.headers["content-security-policy"]) == (
                200,
                True,
            )
            for path in (
                "/me",
                "/live",
                "/inbox",
                "/dead",
                "/topics",
                "/diary",
                "/runs",
                "/agents/packer/ada",
            ):
                assert browser.get(f"/api/v1{path}").status_code == 401
            assert browser.post("/sign-in", json={"token": "x"}).status_code == 401
            assert browser.post("/sign-in", json=[token]).status_code == 401
            for headers in ({"Origin": "https://evil.example"}, {"Host": "evil.example"}):
                assert browser.post("/sign-in", json={"token": token}, headers=headers).status_code in (
                    403,
                    421,
                )
            signed = browser.post("/sign-in", json={"token": token})
            cookie = signed.headers["set-cookie"]
            assert (signed.status_code, "HttpOnly" in cookie, "SameSite=strict" in cookie) == (
                200,
                True,
                True,
            )
            assert token not in cookie
            me = browser.get("/api/v1/me").json()
            assert (me["namespace"], me["scopes"]) == (where[3], ["answer", "operate", "read", "run"])
            order = {"kind": "type", "name": "packer", "paused": True}
            other = browser.post("/api/v1/pauses", json=order, headers={"Origin": "https://evil.example"})
            assert other.status_code == 403
            assert browser.post("/api/v1/pauses", content=json.dumps(order)).status_code == 415
            for path in (
                "/static/..%2fsign_in.py",
                "/static/vendor",
                "/static/nothing.mjs",
                "/api/v1/x",
            ):
                assert browser.get(path).status_code == 404
            assert (
                browser.get("/static/vendor/preact.mjs").headers["content-type"].startswith("text/javascript")
            )


async def test_tokens_say_what_each_may_do_and_tenants_do_not_come_in(
    where: list[str], tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens.toml"
    may = {
        "ada": 'scopes = ["read", "operate"]',
        "eve": 'scopes = ["read"]',
        "bob": 'tenant = "acme"',
        "kim": 'services = ["bank"]',
    }
    tokens.write_text(
        "".join(
            f'[{name}]\nsha256 = "{hashlib.sha256(name.encode()).hexdigest()}"\n{more}\n'
            for name, more in may.items()
        )
    )
    pause = {"kind": "agent", "name": "packer/nobody", "paused": True}
    with dashboard(where, "--tokens", str(tokens)) as (process, _):
        address, token = await link_of(process)
        assert not token
        statuses: dict[str, int] = {}
        for name in may:
            with client(address, name) as http:
                statuses[name] = http.post("/pauses", json=pause).status_code
        assert statuses == {"ada": 200, "eve": 403, "bob": 401, "kim": 401}
        with client(address, "eve") as http:
            assert http.get("/inbox").status_code == 200
        with client(address, "ada") as http:
            assert http.post("/inbox/x", json={"answer": 1}).status_code == 403
            assert http.post("/pauses", json={**pause, "paused": False}).json() == {"done": True}


async def test_who_may_only_read_changes_nothing(where: list[str]) -> None:
    with dashboard(where, "--read-only") as (process, _):
        address, token = await link_of(process)
        with client(address, token) as http:
            assert http.get("/topics").status_code == 200
            for path, body in (
                ("/pauses", {"kind": "type", "name": "packer", "paused": True}),
                ("/dead/packer/discard", {"letters": ["1-1"]}),
                ("/dead/packer/replay", {"letters": ["1-1"]}),
                ("/inbox/x", {"answer": "yes"}),
                ("/services/bank/runs", {"task": "Pay."}),
            ):
                assert http.post(path, json=body).status_code == 403


async def test_a_run_is_begun_asked_about_answered_and_read(board: Any) -> None:
    begun = board.post("/services/bank/runs", json={"task": HOSTILE})
    assert begun.status_code == 202, begun.text
    run = begun.json()["id"]
    asked = await eventually(lambda: [one for one in board.get("/inbox").json() if one["run"] == run], 20)
    await eventually(lambda: look(board)["questions"] >= 1, 20)
    listed = board.get("/latest").json()["runs"]
    assert next((one["task"], one["state"]) for one in listed if one["id"] == run) == (
        HOSTILE,
        "input_required",
    )
    assert board.post(f"/inbox/{asked[0]['id']}", json={"answer": "Yes."}).json() == {"done": True}
    again = board.post(f"/inbox/{asked[0]['id']}", json={"answer": "No."})
    assert (again.status_code, again.json()["status"]) == (409, 409)
    shown = board.get(f"/runs/{run}/result?wait=20").json()
    assert (shown["state"], shown["text"]) == ("completed", "You said: Yes.")
    assert [one for one in board.get("/inbox").json() if one["run"] == run] == []


async def test_what_was_said_with_a_class_that_is_not_known_here_is_shown_as_json(board: Any) -> None:
    run = board.post("/services/court/runs", json={"task": "Who broke it?"}).json()["id"]
    shown = board.get(f"/runs/{run}/result?wait=20").json()
    assert (shown["state"], json.loads(shown["text"])) == (
        "completed",
        {"guilty": False, "why": "It was the carrier."},
    )
    with board.stream("GET", f"/runs/{run}/events") as stream:
        said = [json.loads(line[6:]) for line in stream.iter_lines() if line.startswith("data: ")]
    assert [one["source"] for one in said if one["type"] == "agent_message"] == ["user", "judge"]


async def test_topics_are_listed_by_a_short_look_and_all_of_them_when_asked_for(
    where: list[str], board: Any
) -> None:
    done = type_of(board, "packer")["done"]
    await publish(where, Order(number=1))
    await eventually(lambda: type_of(board, "packer")["done"] == done + 1, 20)
    short, whole = board.get("/topics").json(), board.get("/topics", params={"all": 1}).json()
    assert [one["type"] for one in short["topics"]] == [one["type"] for one in whole["topics"]] == ["orders"]
    assert (short["all"], whole["all"]) == (1, 1)
    assert short["topics"][0]["subscribers"] == ["packer"]


async def test_dead_letters_are_shown_sent_again_and_discarded(where: list[str], board: Any) -> None:
    before = type_of(board, "packer")["done"]
    await publish(where, Order(number=-1, text=HOSTILE), Order(number=-2), Order(number=3))
    await eventually(lambda: type_of(board, "packer")["dead"] == 2, 20)
    await eventually(lambda: type_of(board, "packer")["done"] == before + 1, 20)
    second, first = board.get("/dead", params={"type": "packer"}).json()
    assert "payload" not in first
    shown = board.get(f"/dead/packer/{first['id']}").json()
    assert (shown["payload"], shown["error"]) == (
        {"number": -1, "text": HOSTILE},
        f"ValueError: {HOSTILE} can't be packed",
    )
    sent = board.post("/dead/packer/replay", json={"letters": [first["id"], "1-1"]}).json()
    assert (sent["done"], sent["gone"]) == ([first["id"]], ["1-1"])
    # It fails once more, as another letter.
    await eventually(lambda: type_of(board, "packer")["died"] == 3, 20)
    left = [one["id"] for one in board.get("/dead", params={"type": "packer"}).json()]
    assert first["id"] not in left
    assert board.post("/dead/packer/discard", json={"letters": left}).json()["done"] == left
    assert board.get("/dead", params={"type": "packer"}).json() == []
    assert board.get(f"/dead/packer/{second['id']}").status_code == 404
    agent = board.get("/agents/packer/ada").json()
    assert (agent["waiting"], json.loads(agent["state"])["seen"] >= 1) == (0, True)
    assert "dead" in [line["event"] for line in board.get("/diary").json()]


@pytest.mark.parametrize(("kind", "name"), [("type", "packer"), ("agent", "packer/ada"), ("topic", "orders")])
async def test_what_is_paused_waits_until_it_goes_on(
    where: list[str], board: Any, kind: str, name: str
) -> None:
    done = type_of(board, "packer")["done"]
    assert board.post("/pauses", json={"kind": kind, "name": name, "paused": True}).json() == {"done": True}
    seen = await eventually(lambda: look(board)["paused"], 10)
    assert [(one["name"], bool(one["by"])) for one in seen] == [(name, True)]
    await publish(where, Order(number=1))
    await eventually(lambda: type_of(board, "packer")["waiting"] == 1, 10)
    assert type_of(board, "packer")["done"] == done
    assert board.post("/pauses", json={"kind": kind, "name": name, "paused": False}).json() == {"done": True}
    await eventually(lambda: type_of(board, "packer")["done"] == done + 1, 10)


async def test_the_server_is_looked_at_once_for_all_and_not_at_all_for_nobody(
    where: list[str], board: Any
) -> None:
    transport = RedisTransport(where[1], BrokerSettings(namespace=where[3]))
    try:

        async def calls() -> int:
            told = await transport.admin.command("INFO", "commandstats")
            found = re.search(r"cmdstat_fcall:calls=(\d+)", bytes(told).decode())
            return int(found[1]) if found else 0

        async def in_two_seconds() -> int:
            before = await calls()
            await asyncio.sleep(2)
            return await calls() - before

        nobody = await in_two_seconds()
        async with httpx.AsyncClient(base_url=board.base_url, headers=board.headers) as http:

            async def watch() -> None:
                async with http.stream("GET", "/live") as stream:
                    async for _ in stream.aiter_lines():
                        pass

            one = asyncio.create_task(watch())
            by_one = await in_two_seconds()
            others = [asyncio.create_task(watch()) for _ in range(20)]
            by_all = await in_two_seconds()
            for task in (one, *others):
                task.cancel()
            await asyncio.gather(one, *others, return_exceptions=True)
        assert by_one > nobody
        # Twenty more readers, and as many looks: a second more or less is no matter.
        assert by_all - nobody < 3 * max(1, by_one - nobody)
    finally:
        await transport.close()


async def test_a_server_that_is_away_is_said_and_comes_back() -> None:
    with (
        ServerProcess(persistent=True) as server,
        worked(TARGET, server.url) as options,
        dashboard(options) as (process, _),
    ):
        address, token = await link_of(process)
        with client(address, token) as http:
            await eventually(lambda: "bank" in [one["type"] for one in look(http)["types"]], 30)
            with http.stream("GET", "/live") as stream:
                lines = (line for line in stream.iter_lines() if line.startswith("data: {"))
                assert json.loads(next(lines)[6:])["problem"] == ""
                server.kill()
                while not json.loads(next(lines)[6:])["problem"]:
                    pass
                server.start()
                while json.loads(next(lines)[6:])["problem"]:
                    pass


STATIC = Path(__file__).parents[2] / "callboard/web/dashboard/static"
FILES = sorted(STATIC.rglob("*.mjs"))


@pytest.mark.parametrize("file", FILES, ids=lambda path: str(path.relative_to(STATIC)))
def test_pages_make_no_markup_of_texts_and_import_what_there_is(file: Path) -> None:
    text = file.read_text("utf-8")
    for name in re.findall(r'(?:from|import)\s*"([^"]+)"', text):
        assert name.startswith("."), name
        assert (file.parent / name).resolve().is_file(), name
    if file.parent.name != "vendor":
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "http://",
            "https://",
        ):
            assert word not in text


def test_no_file_is_larger_than_a_page_should_be() -> None:
    assert (STATIC / "vendor/preact.mjs").stat().st_size < 15_000
    assert sum(path.stat().st_size for path in FILES) < 120_000
