"""`callboard trace`, as somebody who looks after an app uses it."""

from __future__ import annotations

import json

from .commands import ShopFolder
from .test_runs import TEAMS


def test_a_run_is_shown_as_a_tree_in_time(shop: ShopFolder) -> None:
    (shop.folder / "press.py").write_text(TEAMS)
    with shop.started("worker", "press:app") as worker:
        worker.shows("works as")
        shop.out("ask", "press:app", "quick", "A line", "--conversation", "sea")
        (listed,) = json.loads(shop.out("runs", "list", "press:app", "--json"))
        shown, data = shop.run_each(
            ("trace", "--namespace", "press", listed["run_id"]),
            ("trace", "press:app", listed["run_id"], "--json"),
        )
    root = json.loads(data.stdout)
    assert (root["kind"], root["name"], root["state"], root["text"]) == ("run", "quick", "ok", "A line")
    assert [(one["name"], one["turn"]) for one in root["spans"] if one["kind"] == "turn"] == [
        ("writer", [1]),
        ("critic", [2]),
        ("writer", [3]),
    ]
    assert "turn  critic" in shown.stdout
