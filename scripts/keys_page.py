"""The page docs/keys.md, made from the tables in the code: `python -m scripts.keys_page > docs/keys.md`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from callboard.broker.redis.catalogue import OF_A_TYPE, OF_ONE_THING, OF_STREAMS, OF_THE_NAMESPACE, KeyKind
from callboard.broker.redis.library import Mark

INTRODUCTION = """# Keys

For those who read or change Redis by hand: every key of a namespace, what it holds, and when it expires.

Every key of a namespace begins with `callboard:{<namespace>}:`, so that all of them live in one slot of a cluster. This
page is made from `callboard/broker/redis/catalogue.py` by `python -m scripts.keys_page`. A reference is
a stream and an entry id with a space between, such as `topic:visits 1763700000000-0`. Workers and operators read and write
every key; the last column has the commands that a user who only publishes may run on it.
"""

COMMITS = """## What a commit says

A worker tells the server with every turn how deliveries ended: for each its stream, its entry id, the key of its agent, and
a text of marks, such as `CSO`. What marks bring follows in their order. The table is made from
`callboard/broker/redis/library.py`.
"""

EXPIRIES = {
    "never": "",
    "window": "`dedupe_window`",
    "two windows": "2 x `dedupe_window`",
    "minute": "1 min",
    "hour": "1 h",
    "retention": "`run_retention`",
}


def page() -> str:
    """The whole text."""
    return "\n".join([INTRODUCTION, *_sections(), COMMITS, *_marks(), ""])


def _sections() -> Iterator[str]:
    yield from _section("Of the namespace", OF_THE_NAMESPACE)
    yield from _section("Streams of messages", OF_STREAMS)
    yield from _section("Of an agent type", OF_A_TYPE)
    yield from _section("Of one agent, worker or message", OF_ONE_THING)


def _section(title: str, kinds: Sequence[KeyKind]) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| key | type | holds | expires after | publisher |\n|---|---|---|---|---|"
    for kind in kinds:
        holds = kind.holds.replace("|", "\\|")  # also in code, in a table
        commands = ", ".join(name.replace("|", " ").upper() for name in kind.publisher.split())
        yield f"| `{kind.pattern}` | {kind.type} | {holds} | {EXPIRIES[kind.expiry]} | {commands} |"
    yield ""


def _marks() -> Iterator[str]:
    yield "| mark | | says | brings |\n|---|---|---|---|"
    for mark in Mark:
        yield f"| `{mark}` | {mark.name} | {mark.meaning} | {mark.arguments} |"


if __name__ == "__main__":
    print(page(), end="")
