"""Which keys may be left in a namespace where everything is at rest, and which of them have to expire.

It says the same as callboard/broker/redis/catalogue.py, on purpose a second time: a key that is added there and that no code
ever removes is found here. A new kind of key is a line here, and one there; a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal

from .evidence import StoredKey

Rule = Literal["stays", "expires", "goes"]

# stays: bounded, or the user's own. expires: has a TTL. goes: is removed when its work is done.
KINDS: Final[tuple[tuple[str, Rule], ...]] = (
    (r"clock|epoch|topics|prefixes|types|config|workers|beats|events|control|accepts", "stays"),
    (r"grown|runs|schedules", "stays"),
    (r"chores", "goes"),
    (r"paused|cancelled", "stays"),  # until it is resumed; as long as requests may wait
    (r"(topic|inbox|dead|streams|fresh|bell|cursor|stats):[^:]+", "stays"),
    (r"state:[^:]+:.+", "stays"),
    (r"log:[^:]+:.*:.+", "stays"),
    (r"worker:.+", "stays"),
    (r"dedupe|sent:.+|run:.+|input:.+|call:.+|once:[^:]+:.+|reply:.+|rate:.+", "expires"),
    (r"(busy|parked|ready|suspects|early|tries):[^:]+", "goes"),
    (r"wait:[^:]+:.*|own:.+|timers|timer:.+", "goes"),
    (
        r"shelved:[^:]+|urgent(:[^:]+)?|newer:[^:]+|suspended:[^:]+|inputs(:.*)?|asking:.+|leaving|resumed",
        "goes",
    ),
    (r"blobs|blob:.+|nested:.+", "goes"),
    (r"store:.+", "stays"),
)
_COMPILED = tuple((re.compile(pattern), rule) for pattern, rule in KINDS)


def wrong_keys(keys: Iterable[StoredKey]) -> list[str]:
    """One complaint for each Redis key that breaks the rule of its kind, or has no kind."""
    return [wrong for key in keys if (wrong := _wrong(key))]


def _wrong(key: StoredKey) -> str:
    rule = next((rule for pattern, rule in _COMPILED if pattern.fullmatch(key.name)), None)
    if rule is None:
        return f"{key.name} is of no known kind"
    if rule == "goes":
        return f"{key.name} should be gone"
    if rule == "expires" and key.ttl is None:
        return f"{key.name} never expires"
    return ""
