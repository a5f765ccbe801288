"""`callboard types`, and what `up` and the doctor say of types that were left behind."""

from __future__ import annotations

import json

from .commands import ShopFolder

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
