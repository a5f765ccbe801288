"""How a message is sent, from keyword arguments."""

from __future__ import annotations

from typing import Any, cast

import pytest

from callboard.core.protocol import (
    USUAL,
    PublishOptions,
    ReminderOptions,
    RequestOptions,
    SendOptions,
    TellOptions,
)


def test_most_messages_share_one_object() -> None:
    assert SendOptions.of_event(None, {}) is USUAL
    assert SendOptions.of_request(None, {}) is USUAL


def test_what_is_given_is_kept() -> None:
    assert SendOptions.of_event("m1", {"delay": 2, "expires_in": 3}) == USUAL._replace(
        message_id="m1", delay=2, expires_in=3
    )
    assert SendOptions.of_request(None, {"timeout": 5}).timeout == 5


def test_a_reminder_is_told_with_the_same_options() -> None:
    when: ReminderOptions = {"after": 2, "expires_in": 3}
    assert SendOptions.of_reminder("m1", when) == SendOptions.of_tell("m1", {"after": 2, "expires_in": 3})
    assert SendOptions.of_tell(None, {"after": 2, "now": True}) == USUAL._replace(delay=2, now=True)
    assert SendOptions.of_tell(None, {}) is USUAL


def test_what_is_told_has_no_other_options() -> None:
    with pytest.raises(TypeError, match=r"tell\(\) has no option 'delay'"):
        SendOptions.of_tell(None, cast("TellOptions", {"delay": 1}))
    with pytest.raises(TypeError, match=r"remind\(\) has no option 'now'"):
        SendOptions.of_reminder(None, cast("ReminderOptions", {"now": True}))


@pytest.mark.parametrize("given", [{"timeout": 1}, {"dely": 1}])
def test_an_event_has_no_other_options(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"publish_message\(\) has no option"):
        SendOptions.of_event(None, cast("PublishOptions", given))


def test_the_nearest_option_is_named() -> None:
    with pytest.raises(TypeError, match="Did you mean 'timeout'"):
        SendOptions.of_request(None, cast("RequestOptions", {"time_out": 1}))


def test_every_key_has_a_field_and_every_field_is_a_key() -> None:
    keys = {
        *PublishOptions.__optional_keys__,
        *RequestOptions.__optional_keys__,
        *TellOptions.__optional_keys__,
    }
    assert set(SendOptions._fields) == keys - {"after"} | {"message_id"}
