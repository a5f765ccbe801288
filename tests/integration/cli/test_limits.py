"""`callboard limits`: what is used of limits, the fullest first, whatever their names are."""

from __future__ import annotations

import asyncio
import json

from callboard.broker import BrokerSettings
from callboard.broker.redis.store import RedisStore
from tests.helpers.servers import ServerProcess

from .commands import ShopFolder

ODD = "customer:\u202eeve; \x1b[31m 'x'"


def test_limits_are_listed_the_fullest_first(shop: ShopFolder, server: ServerProcess) -> None:
    shop.out("publish", "shop:app", "jobs", "Job", "name=quick")
    assert shop.out("limits", "shop:app").strip() == "nothing is used of any limit of a minute or a day"

    async def use() -> None:
        store = RedisStore.at(server.url, BrokerSettings(namespace="shop"))
        used = {"requests": 1.0, "tokens": 30.0, "usd": 0.0}
        await store.enter(
            "a", used, [("client:gpt", 60.0, "requests", 5.0), ("client:gpt", 60.0, "tokens", 100.0)]
        )
        await store.enter("b", used, [(ODD, 86_400.0, "requests", 1.0)])
        for number in range(50):
            await store.enter(f"c{number}", used, [(f"customer:{number:02}", 60.0, "requests", 100.0)])
        store.close()

    asyncio.run(use())
    shown = shop.out("limits", "shop:app").splitlines()
    assert "1 of 1 requests" in shown[1]
    assert "in 24 h" in shown[1]
    assert "\u202e" not in shown[1]
    assert "\x1b" not in shown[1]
    assert "30 of 100 tokens" in shown[2]
    assert shown[2].endswith("now")
    assert len([line for line in shown if "customer:" in line]) == 48
    everything = json.loads(shop.out("limits", "--namespace", "shop", "--json"))
    assert len(everything) == 53
    assert everything[0]["scope"] == ODD
    assert shop.out("limits", "--namespace", "shop", "--all").count("customer:") == 51
    assert shop.run("limits", "--namespace", "nowhere").returncode == 2
