"""`callboard types`, and what `up` and the doctor say of types that were left behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
import redis

from tests.helpers.servers import ServerProcess

from .commands import ShopFolder, wait_for

RENAMED = ('@app.agent("guard", topics=["alarms"])', '@app.agent("warden", topics=["alarms"])')


def rename_guard(shop: ShopFolder) -> None:
    """The app calls its guard by another name from now on."""
    code = (shop.folder / "shop.py").read_text(encoding="utf-8")
    (shop.folder / "shop.py").write_text(code.replace(*RENAMED), encoding="utf-8")


def test_a_type_that_the_app_lacks_is_named_with_what_to_do(shop: ShopFolder) -> None:
    shop.out("publish", "shop:app", "alarms", "Job", "name=fire")
    assert "guard" in shop.out("types", "list", "shop:app")
    rename_guard(shop)
    shop.out("publish", "shop:app", "jobs", "Job", "name=one")  # declares what the app has now
    listed = shop.run("types", "list", "shop:app")
    rows = {line.split()[0]: line.split() for line in listed.stdout.splitlines()}
    assert rows["guard"] == ["guard", "topic:alarms", "prefix:guard:", "1", "0", "0", "0", "no"]
    assert rows["warden"][-1] == "yes"
    assert "callboard types remove guard --namespace shop" in listed.stderr
    assert "callboard types rename guard NEW --namespace shop" in listed.stderr
    data = {one["type"]: one for one in json.loads(shop.out("types", "list", "shop:app", "--json"))}
    assert (data["guard"]["declared"], data["guard"]["waiting"], data["guard"]["joined"]) == (False, 1, None)
    assert data["guard"]["subscriptions"] == ["topic:alarms->guard", "prefix:guard:->guard"]
    assert "types        guard: the app does not declare it" in shop.run("doctor", "shop:app").stdout
    with shop.started("up", "shop:app", "--processes", "warden=0") as running:
        said = "agent types that shop does not declare and no worker runs: guard (1 wait)"
        running.shows(said + "; see callboard types list shop:app --namespace shop")


def test_a_type_is_removed_when_it_was_said_what_becomes_of_its_messages(shop: ShopFolder) -> None:
    shop.out("publish", "shop:app", "alarms", "Job", "name=fire")
    of = ("guard", "--namespace", "shop")
    refused = shop.run("types", "remove", *of, "--yes")
    assert refused.returncode == 1
    assert (
        refused.stdout == "guard: 2 subscriptions, 1 messages wait, 0 agents have a state, 0 dead letters\n"
    )
    assert "--waiting dead or --waiting discard" in refused.stderr
    asked = shop.run("types", "remove", *of, "--waiting", "dead")
    assert (asked.returncode, "add --yes" in asked.stderr) == (2, True)
    assert shop.run("types", "remove", *of, "--waiting", "gone").returncode == 2
    assert shop.out("types", "remove", *of, "--waiting", "dead", "--yes").endswith("guard is removed\n")
    assert "guard" not in shop.out("types", "list", "--namespace", "shop")
    assert "removed" in shop.out("dead", "list", *of)
    again = shop.run("types", "remove", *of, "--yes")
    assert (again.returncode, "there is no agent type 'guard'" in again.stderr) == (1, True)


def test_a_type_that_a_worker_has_is_left_alone(shop: ShopFolder) -> None:
    with shop.started("worker", "shop:app", "--type", "guard") as running:
        running.shows("works as")
        for words in (("rename", "guard", "warden"), ("remove", "guard", "--yes")):
            refused = shop.run("types", *words, "--namespace", "shop")
            assert refused.returncode == 1
            assert "has it: stop that first" in refused.stderr


COUNTED = """
from pydantic import BaseModel
from callboard import App, Log, MessageContext, RoutedAgent, event, rpc

class Count(BaseModel):
    number: int

class Which(BaseModel): ...

app = App("counted")

@app.agent("old", topics=["counts"])
class Counter(RoutedAgent):
    class State(BaseModel):
        seen: Log[int] = Log()

    @event
    async def on_count(self, message: Count, ctx: MessageContext) -> None:
        self.state.seen.append(message.number)

    @rpc
    async def on_which(self, message: Which, ctx: MessageContext) -> list[int]:
        return list(self.state.seen)
"""

LOAD = """
import asyncio, json, pathlib
from callboard import RedisAgentRuntime, TopicId
from counted import Count

KEYS = [f"key {number}" for number in range(20)]

async def main():
    sent = 0
    async with RedisAgentRuntime(namespace="counted") as runtime:
        while not pathlib.Path("enough").exists():
            sent += 1
            for key in KEYS:
                await runtime.publish_message(Count(number=sent), TopicId("counts", key))
    pathlib.Path("sent.json").write_text(json.dumps(sent))

asyncio.run(main())
"""


def handled(shop: ShopFolder, agent_type: str) -> list[list[int]]:
    asks = [("ask", "counted:app", f"{agent_type}/key {number}", "Which", "--json") for number in range(20)]
    answered = shop.run_each(*asks)
    assert [done.stderr for done in answered if done.returncode] == []
    return [json.loads(done.stdout) for done in answered]


@pytest.mark.slow
def test_renamed_under_load_with_a_kill_in_between_and_back(shop: ShopFolder, server: ServerProcess) -> None:
    """Whatever is published while a type has no worker, half a name, or another one, is handled once and in order."""
    (shop.folder / "counted.py").write_text(COUNTED, encoding="utf-8")
    (shop.folder / "load.py").write_text(LOAD, encoding="utf-8")
    keys = redis.Redis(unix_socket_path=str(server.path))
    with shop.started("worker", "counted:app") as first:
        first.shows("works as")
        with subprocess.Popen([sys.executable, "load.py"], cwd=shop.folder, env=shop.environ) as load:
            wait_for(lambda: keys.exists("callboard:{counted}:state:old:key 19"))
            first.signal(signal.SIGTERM)
            assert first.ends() == 0
            for number in range(3000):  # that takes some time to be renamed
                keys.hset(f"callboard:{{counted}}:state:old:idle {number}", mapping={"v": 1, "d": b"\x80"})
            rename = subprocess.Popen(
                shop.command("types", "rename", "old", "new", "--namespace", "counted"),
                cwd=shop.folder,
                env=shop.environ,
            )
            wait_for(lambda: keys.hexists("callboard:{counted}:config", "changing"))
            rename.kill()
            rename.wait()
            assert keys.hexists("callboard:{counted}:config", "changing"), "it was killed too late"
            refused = shop.run("worker", "counted:app")
            assert refused.returncode != 0
            assert "run it again: callboard types rename old new" in refused.stderr
            again = shop.out("types", "rename", "old", "new", "--namespace", "counted")
            assert again == "old is new now: an interrupted rename went on\n"
            code = COUNTED.replace('"old"', '"new"')
            (shop.folder / "counted.py").write_text(code, encoding="utf-8")
            with shop.started("worker", "counted:app") as second:
                second.shows("works as")
                wait_for(lambda: int(keys.hget("callboard:{counted}:stats:new", "done") or 0) > 2000)
                second.signal(signal.SIGTERM)
                assert second.ends() == 0
            shop.out("types", "rename", "new", "old", "--namespace", "counted")
            (shop.folder / "counted.py").write_text(COUNTED, encoding="utf-8")
            with shop.started("worker", "counted:app") as third:
                third.shows("works as")
                (shop.folder / "enough").touch()
                assert load.wait() == 0
                sent = json.loads((shop.folder / "sent.json").read_text(encoding="utf-8"))
                assert handled(shop, "old") == [list(range(1, sent + 1))] * 20
    keys.close()
    assert shop.out("repair", "--namespace", "counted") == "the books of the namespace agree\n"
