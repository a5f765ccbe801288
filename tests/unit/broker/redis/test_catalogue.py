"""The one table of keys, and what has to agree with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from callboard.broker import BrokerSettings
from callboard.broker.redis.catalogue import CATALOGUE, KeyKind, kind_of
from callboard.broker.redis.operations.acl import rules
from scripts.chaos_suite.keyspace import KINDS
from scripts.keys_page import page

ROOT = Path(__file__).parents[4]
LUA = ROOT / "callboard/broker/redis/lua"


def _sample(kind: KeyKind) -> str:
    """A key of this kind."""
    return re.sub(r"<[^>]+>", "7", kind.pattern)


def test_every_key_is_of_one_kind() -> None:
    assert len({kind.name for kind in CATALOGUE}) == len(CATALOGUE)
    for kind in CATALOGUE:
        assert kind_of(_sample(kind)) is kind
    assert kind_of("notes") is None
    assert kind_of("notes:a") is None


def test_a_lifetime_follows_the_settings() -> None:
    settings = BrokerSettings(dedupe_window=120.0, run_retention=5.0)
    lifetimes = {kind.expiry: kind.expires_in(settings) for kind in CATALOGUE}
    assert lifetimes == {
        "never": None,
        "window": 120_000,
        "two windows": 240_000,
        "minute": 60_000,
        "hour": 3_600_000,
        "retention": 5_000,
    }


@pytest.mark.parametrize("kind", CATALOGUE, ids=lambda kind: kind.name)
def test_what_may_be_left_at_rest_agrees(kind: KeyKind) -> None:
    """The chaos runs have a list of their own, on purpose: it must know the same keys, and the same that expire."""
    found = [rule for pattern, rule in KINDS if re.fullmatch(pattern, _sample(kind))]
    assert len(found) == 1
    if found == ["expires"]:
        assert kind.expiry != "never"
    elif kind.name not in ("cancelled", "nested:"):  # they expire, and go or stay before that
        assert kind.expiry == "never"


def test_the_list_of_the_chaos_runs_names_nothing_else() -> None:
    samples = [_sample(kind) for kind in CATALOGUE]
    assert [p for p, _ in KINDS if not any(re.fullmatch(p, sample) for sample in samples)] == []


def test_every_key_of_the_lua_functions_is_in_the_table() -> None:
    text = "\n".join(path.read_text() for path in LUA.rglob("*.lua"))
    used = set(re.findall(r"P \.\. '([a-z]+:?)", text)) - {"topic:", "inbox:"}
    assert used <= {kind.name for kind in CATALOGUE}
    assert len(used) > 30


def test_a_publisher_gets_what_the_table_says() -> None:
    words = " ".join(rules("publisher", "shop", "web"))
    for kind in CATALOGUE:
        glob = "reply:web:*" if kind.name == "reply:" else kind.glob
        key = re.escape(f"~callboard:{{shop}}:{glob}")
        found = re.search(rf"\(([^()]*) [^()]*{key}[ )]", words)
        assert (found is not None) is bool(kind.publisher), kind
        if found:
            commands = {word[1:] for word in found[0].strip("()").split() if word.startswith("+")}
            assert commands == set(kind.publisher.split())


def test_the_page_of_keys_is_up_to_date() -> None:
    """If not: `python -m scripts.keys_page > docs/keys.md`."""
    assert (ROOT / "docs/keys.md").read_text() == page()
