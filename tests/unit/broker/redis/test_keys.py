from __future__ import annotations

import pytest

from callboard.broker.errors import SettingsError
from callboard.broker.redis import keys
from callboard.broker.redis.keys import Keys


def test_every_key_of_a_namespace_has_its_hash_tag() -> None:
    named = Keys("shop.eu:1")
    assert named.prefix == "callboard:{shop.eu:1}:"
    assert named.of("workers") == "callboard:{shop.eu:1}:workers"


@pytest.mark.parametrize("namespace", ["", "a{b", "a}b", "a b", "a\nb", "a\tb", "a*", "a?", "[a]"])
def test_a_namespace_that_would_break_keys_or_patterns_is_refused(namespace: str) -> None:
    with pytest.raises(SettingsError, match="is not valid"):
        Keys(namespace)


def test_suffixes() -> None:
    assert keys.topic("visits") == "topic:visits"
    assert keys.inbox("counter") == "inbox:counter"
    assert keys.dead("counter") == "dead:counter"
    assert keys.bell("counter") == "bell:counter"
    assert keys.reply("host:1:ab") == "reply:host:1:ab"
