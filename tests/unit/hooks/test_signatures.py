"""Signatures of webhooks, and the secrets that they are made with."""

from __future__ import annotations

import base64
import hmac
import os
from typing import Any

import pytest

from callboard.errors import SettingValueError
from callboard.hooks import WebhookSignatureError, new_secret
from callboard.hooks.secrets import keys_of, standard_key, text_key
from callboard.hooks.signatures import SCHEMES, signed

# The example of the specification.
SECRET, ID, AT = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330
BODY = b'{"test": 2432232314}'
KEYS = keys_of(SECRET, standard_key, "")
HEADERS = {
    "webhook-id": ID,
    "webhook-timestamp": str(AT),
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}


def test_it_is_the_one_of_the_specification() -> None:
    assert signed(KEYS, ID, AT, BODY) == HEADERS
    assert SCHEMES["standard"].check(HEADERS, BODY, KEYS, AT + 299) == ID


def test_each_key_signs_and_any_may_have_signed() -> None:
    both = (b"k" * 32, *KEYS)
    headers = signed(both, ID, AT, BODY)
    assert len(headers["webhook-signature"].split(" ")) == 2
    for keys in (both, both[:1], both[1:]):
        assert SCHEMES["standard"].check(headers, BODY, keys, AT) == ID


@pytest.mark.parametrize(
    ("change", "body"),
    [
        ({}, BODY + b" "),
        ({"webhook-id": "msg_2"}, BODY),
        ({"webhook-timestamp": str(AT + 1)}, BODY),
        ({"webhook-signature": HEADERS["webhook-signature"][3:]}, BODY),
        ({"webhook-signature": "v1,"}, BODY),
        ({"webhook-signature": "v1,\xe4"}, BODY),
    ],
)
def test_what_the_secret_has_not_signed_is_refused(change: dict[str, str], body: bytes) -> None:
    with pytest.raises(WebhookSignatureError, match="its signature is not"):
        SCHEMES["standard"].check({**HEADERS, **change}, body, KEYS, AT)


@pytest.mark.parametrize("now", [AT + 301, AT - 301])
def test_what_was_sent_at_another_time_is_refused(now: int) -> None:
    with pytest.raises(WebhookSignatureError, match="more than 300 seconds"):
        SCHEMES["standard"].check(HEADERS, BODY, KEYS, now)


@pytest.mark.parametrize("at", ["", "now", "-1", "1e9", "٣", "9" * 13, "1614265330.5"])
def test_a_time_is_a_number_of_seconds(at: str) -> None:
    headers = signed(KEYS, ID, at, BODY)  # type: ignore[arg-type]
    with pytest.raises(WebhookSignatureError, match=r"no Unix time|no header"):
        SCHEMES["standard"].check(headers, BODY, KEYS, AT)


@pytest.mark.parametrize("missing", HEADERS)
def test_a_header_that_is_missing_is_named(missing: str) -> None:
    headers = {name: value for name, value in HEADERS.items() if name != missing}
    with pytest.raises(WebhookSignatureError, match=f"no header {missing}"):
        SCHEMES["standard"].check(headers, BODY, KEYS, AT)


def test_a_body_of_stripe_without_an_id_is_refused() -> None:
    key = b"k" * 16
    for body in (b"{}", b"[]", b"{", b'{"id": 1}', b"[" * 100_000):
        content = f"{AT}.".encode() + body
        signature = hmac.digest(key, content, "sha256").hex()
        with pytest.raises(WebhookSignatureError, match="no id"):
            SCHEMES["stripe"].check({"stripe-signature": f"t={AT},v1={signature}"}, body, [key], AT)


@pytest.mark.parametrize(
    "secret",
    [
        "",
        [],
        [""],
        [SECRET, ""],
        "whsec_",
        SECRET.removeprefix("whsec_"),
        "whsec_" + base64.b64encode(b"short").decode(),
        "whsec_" + base64.b64encode(b"k" * 65).decode(),
        "whsec_ä",
        lambda: "",
        lambda: os.environ["NO_SUCH_SECRET"],
        list,
    ],
)
def test_a_secret_that_is_missing_or_none_is_refused_and_not_shown(secret: Any) -> None:
    with pytest.raises(SettingValueError, match="whsec_ and") as caught:
        keys_of(secret, standard_key, SCHEMES["standard"].rule)
    assert "MfKQ" not in str(caught.value)


def test_a_secret_that_is_a_text_is_not_short() -> None:
    assert keys_of("sixteen letters!", text_key, "") == (b"sixteen letters!",)
    with pytest.raises(SettingValueError):
        keys_of("fifteen letters", text_key, "")


def test_a_new_secret_is_one() -> None:
    one, other = new_secret(), new_secret()
    assert one != other
    assert [len(key) for key in keys_of([one, other], standard_key, "")] == [32, 32]
