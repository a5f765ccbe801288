"""Webhooks that come in at doors: each becomes one message, and what is not signed as it has to be becomes none."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook

from callboard import AgentId
from callboard.runtime.runtime import RedisAgentRuntime
from tests.helpers.door_processes import DoorProcesses
from tests.helpers.eventually import eventually
from tests.helpers.hooked_desk import TEXT_SECRET, hooked
from tests.helpers.receivers import SECRET
from tests.helpers.servers import ServerProcess

JSON = {"content-type": "application/json"}


class DoorsFixture:
    """Doors, and the agents behind them in this process."""

    def __init__(self, doors: DoorProcesses, runtime: RedisAgentRuntime) -> None:
        self.doors = doors
        self._runtime = runtime

    async def heard(self, key: str = "default") -> list[str]:
        state = await self._runtime.agent_save_state(AgentId("counter", key))
        return list(state.get("heard", []))

    async def hears(self, *texts: str, key: str = "default") -> None:
        """These, and no more."""

        async def enough() -> bool:
            return len(await self.heard(key)) >= len(texts)

        await eventually(enough, 20)
        await self._runtime.stop_when_idle()
        self._runtime.start()
        assert await self.heard(key) == list(texts)


@pytest.fixture
async def there(shared_server: ServerProcess, tmp_path: Path) -> AsyncIterator[DoorsFixture]:
    namespace = f"hooks-{os.urandom(4).hex()}"
    where = ["--url", shared_server.url, "--namespace", namespace]
    doors = DoorProcesses("tests.helpers.hooked_desk:app", where, tmp_path)
    async with hooked("http://127.0.0.1:9/").running(shared_server.url, namespace=namespace) as runtime:
        yield DoorsFixture(doors, runtime)
    doors.close()


def standard(body: bytes, delivery: str = "msg_1", at: float | None = None, secret: str = SECRET) -> Any:
    """Headers by the public library of senders."""
    seconds = int(time.time() if at is None else at)
    signature = Webhook(secret).sign(delivery, datetime.fromtimestamp(seconds, UTC), body.decode())
    return {
        **JSON,
        "webhook-id": delivery,
        "webhook-timestamp": str(seconds),
        "webhook-signature": f"v1a,AAAA {signature}",
    }


def github(body: bytes, delivery: str, event: str = "push", secret: str = TEXT_SECRET) -> dict[str, str]:
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {
        **JSON,
        "X-GitHub-Delivery": delivery,
        "X-GitHub-Event": event,
        "X-Hub-Signature-256": f"sha256={signature}",
    }


def stripe(body: bytes, at: int, secret: str = TEXT_SECRET) -> dict[str, str]:
    signature = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return {**JSON, "Stripe-Signature": f"t={at},v1={'0' * 64},v1={signature},v0=1"}


def order(number: int) -> bytes:
    return json.dumps({"number": number, "note": "ä\n\ndata: x"}).encode()


def posted(address: str, hook: str, body: bytes, headers: Any) -> httpx.Response:
    return httpx.post(f"{address}/hooks/{hook}", content=body, headers=headers, timeout=20)


async def test_one_that_comes_twice_to_two_doors_is_one_message(there: DoorsFixture) -> None:
    first, one = await there.doors.open()
    _, two = await there.doors.open()
    body = order(1)
    assert posted(one, "shop", body, standard(body)).status_code == 204
    first.kill()
    assert posted(two, "shop", body, standard(body)).status_code == 204
    other = "whsec_" + "A" * 32  # one secret takes the place of another
    assert posted(two, "shop", order(2), standard(order(2), "msg_2", secret=other)).status_code == 204
    await there.hears("order 1", "order 2")


async def test_github_and_stripe(there: DoorsFixture) -> None:
    _, address = await there.doors.open()
    push = json.dumps({"ref": "main", "repository": {"name": "bus", "stars": 1}}).encode()
    paid = json.dumps({"id": "evt_1", "type": "invoice.paid", "created": 1}).encode()
    now = int(time.time())
    for delivery in ("d1", "d1", "d2"):
        assert posted(address, "github", push, github(push, delivery)).status_code == 204
    assert posted(address, "github", b"{}", github(b"{}", "d3", "ping")).status_code == 204
    for at in (now, now - 1):
        assert posted(address, "stripe", paid, stripe(paid, at)).status_code == 204
    await there.hears("push main", "push main", key="bus")
    await there.hears("invoice.paid evt_1")


async def test_what_is_not_signed_as_it_has_to_be_is_refused(there: DoorsFixture) -> None:
    _, address = await there.doors.open()
    body, now = order(1), time.time()
    good = standard(body)
    twice = [*good.items(), ("webhook-id", "msg_2")]
    unsigned = {name: value for name, value in good.items() if name != "webhook-signature"}
    key = base64.b64encode(b"another secret, of 24 bytes and more").decode()
    cases: list[tuple[str, bytes, Any, int]] = [
        ("none", body, good, 404),
        ("shop", body, JSON, 401),
        ("shop", body, unsigned, 401),
        ("shop", order(2), good, 401),
        ("shop", body, {**good, "webhook-id": "msg_2"}, 401),
        ("shop", body, {**good, "webhook-timestamp": str(int(now) + 1)}, 401),
        ("shop", body, {**good, "webhook-signature": "v1,"}, 401),
        ("shop", body, {**good, "webhook-signature": "v1,ä".encode("latin-1")}, 401),
        ("shop", body, {**good, "webhook-signature": "v2" + good["webhook-signature"][10:]}, 401),
        ("shop", body, standard(body, secret=f"whsec_{key}"), 401),
        ("shop", body, standard(body, at=now - 301), 401),
        ("shop", body, standard(body, at=now + 302), 401),
        ("shop", body, twice, 400),
        ("shop", body, github(body, "d"), 401),
        ("shop", body, standard(body, "m" * 256), 401),
        ("github", b"{}", github(b"{}", "d", secret="another secret, long enough"), 401),
        ("github", b"{}", {**github(b"{}", "d"), "X-GitHub-Delivery": ""}, 401),
        ("stripe", b"{}", stripe(b"{}", int(now)), 401),
        ("stripe", b"{}", stripe(b"{}", int(now) - 301), 401),
        (
            "stripe",
            b"{}",
            {**JSON, "Stripe-Signature": f"t=1,{stripe(b'{}', int(now))['Stripe-Signature']}"},
            401,
        ),
        ("stripe", b"{}", {**JSON, "Stripe-Signature": "x" * 4000}, 401),
    ]
    for hook, content, headers, status in cases:
        answer = posted(address, hook, content, headers)
        assert answer.status_code == status, (headers, answer.text)
        assert answer.json()["status"] == status
        assert SECRET not in answer.text
    assert await there.heard() == []


async def test_what_is_signed_and_can_not_be_taken_is_a_problem_and_no_fault(there: DoorsFixture) -> None:
    _, address = await there.doors.open()
    cases = [
        (b"{", 400),
        (b"[" * 70 + b"]" * 70, 400),
        (b'{"number": NaN}', 400),
        (b'{"number": "x"}', 422),
        (b"[]", 422),
        (b"null", 422),
        (b" " * 1_000_001, 413),
    ]
    for number, (body, status) in enumerate(cases):
        answer = posted(address, "shop", body, standard(body, f"m{number}"))
        assert answer.status_code == status, (body[:20], answer.text)
    body = order(3)
    as_form = {**standard(body), "content-type": "application/x-www-form-urlencoded"}
    assert posted(address, "shop", body, as_form).status_code == 415
    async with httpx.AsyncClient() as http:
        assert (await http.get(f"{address}/hooks/shop")).status_code == 405
    unset = posted(address, "later", body, standard(body))
    assert (unset.status_code, unset.headers["retry-after"]) == (503, "2")
    for key, status in (("k" * 2000, 422), ("\ud800", 400)):
        push = json.dumps({"ref": "main", "repository": {"name": key}}).encode()
        assert posted(address, "github", push, github(push, f"d{len(key)}")).status_code == status
    # A message that was refused is not known: the sender may mend it.
    assert posted(address, "shop", body, standard(body, "m0")).status_code == 204
    await there.hears("order 3")
