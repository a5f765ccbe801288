"""Workers that pass a limit: they drain and are replaced, nothing is lost, no attempt is counted."""

from __future__ import annotations

import json
import signal

import pytest

from .commands import ShopFolder, wait_for, workers_in

APP = """
import asyncio
from pydantic import BaseModel
from callboard import App, MessageContext, RoutedAgent, event

class Job(BaseModel):
    name: str
    seconds: float = 0.0

app = App("leaky")
leaked: list[bytes] = []

@app.agent("leaker", topics=["leaks"])
class Leaker(RoutedAgent):
    class State(BaseModel):
        names: list[str] = []

    @event
    async def on_job(self, message: Job, ctx: MessageContext) -> None:
        if message.name.startswith("leak"):
            leaked.append(b"x" * 5_000_000)
        await asyncio.sleep(message.seconds)
        self.state.names.append(message.name)
        print(f"did {message.name} in attempt {ctx.attempt}", flush=True)
"""


@pytest.fixture
def leaky(shop: ShopFolder) -> ShopFolder:
    (shop.folder / "leaky.py").write_text(APP, encoding="utf-8")
    return shop


def publish(shop: ShopFolder, *names: str, seconds: float = 0.0) -> None:
    lines = "\n".join(json.dumps({"name": name, "seconds": seconds}) for name in names)
    shop.out("publish", "leaky:app", "leaks", "Job", "--file", "-", stdin=lines)


def handled(shop: ShopFolder) -> int:
    return int(json.loads(shop.out("status", "leaky:app", "--json"))["totals"]["done"])


def test_a_leaking_worker_is_replaced_without_losing_anything(leaky: ShopFolder) -> None:
    with leaky.started("up", "leaky:app", "--max-memory", "200MB", "--restarts", "0") as running:
        running.shows("leaker | works as")
        publish(leaky, *(f"leak {number}" for number in range(80)), seconds=0.02)
        wait_for(lambda: handled(leaky) == 80, 60, lambda: running.text)
        assert running.text.count("leaker has recycled itself, starts again") >= 1
        assert "max_memory is 200 MB" in running.text
        assert "in attempt 2" not in running.text
        assert [running.text.count(f"did leak {number} in") for number in range(80)] == [1] * 80
        running.signal(signal.SIGTERM)
        assert running.ends() == 0
        assert workers_in(leaky.folder) == []
    totals = json.loads(leaky.out("status", "leaky:app", "--json"))["totals"]
    assert (totals["retried"], totals["dead"], totals["reaped"]) == (0, 0, 0)


def test_a_worker_without_a_supervisor_ends_with_a_status_that_asks_for_another(leaky: ShopFolder) -> None:
    publish(leaky, "one", "two", "three", seconds=0.2)
    with leaky.started("worker", "leaky:app", "--max-messages", "3") as running:
        assert running.ends() == 79
        assert "handled 3 messages, max_messages is 3" in running.text
        assert "stopped; handled 3 messages, 0 attempts failed" in running.text
    assert handled(leaky) == 3


def test_the_limits_are_settings_too(leaky: ShopFolder) -> None:
    leaky.environ["CALLBOARD_MAX_MESSAGES"] = "1"
    publish(leaky, "one")
    with leaky.started("worker", "leaky:app") as running:
        assert running.ends() == 79


def test_a_limit_that_no_worker_can_keep_is_refused(leaky: ShopFolder) -> None:
    done = leaky.run("worker", "leaky:app", "--max-memory", "1MB")
    assert done.returncode == 78
    assert "before its first message and may take 1 MB: raise max_memory" in done.stderr


def test_a_size_that_is_none_is_wrong_use(leaky: ShopFolder) -> None:
    done = leaky.run("worker", "leaky:app", "--max-memory", "much")
    assert (done.returncode, "'much' is no size" in done.stderr) == (2, True)
