from __future__ import annotations

import ssl

import pytest

from callboard.broker.errors import SettingsError
from callboard.broker.redis.client.endpoint import Address, Endpoint, Watched


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://", Endpoint("redis")),
        ("redis://example.com", Endpoint("redis", "example.com")),
        ("redis://example.com:7000/2", Endpoint("redis", "example.com", 7000, database=2)),
        ("redis://[::1]:7000", Endpoint("redis", "::1", 7000)),
        ("redis://:pw@h", Endpoint("redis", "h", password="pw")),
        ("redis://me:p%40w%2F@h", Endpoint("redis", "h", username="me", password="p@w/")),
        ("rediss://h", Endpoint("rediss", "h")),
        ("rediss://h?ssl_cert_reqs=none", Endpoint("rediss", "h", check_certificate=False)),
        ("rediss://h?ssl_ca_certs=/ca.pem", Endpoint("rediss", "h", ca_file="/ca.pem")),
        ("unix:///run/redis.sock", Endpoint("unix", path="/run/redis.sock")),
        ("unix:///with%20space.sock?db=3", Endpoint("unix", path="/with space.sock", database=3)),
        ("unix://:pw@/run/redis.sock", Endpoint("unix", path="/run/redis.sock", password="pw")),
        (
            "redis+sentinel://a,b:7,[::1]:8/mymaster",
            Endpoint(
                "redis",
                "",
                0,
                watched=Watched("mymaster", (Address("a", 26379), Address("b", 7), Address("::1", 8))),
            ),
        ),
        (
            "rediss+sentinel://me:p%40w@a/my%20master/3?sentinel_username=s&sentinel_password=x%26y",
            Endpoint(
                "rediss",
                "",
                0,
                database=3,
                username="me",
                password="p@w",
                watched=Watched("my master", (Address("a", 26379),), "s", "x&y"),
            ),
        ),
        (
            "redis+sentinel://[::1],a:7, b,a:7/mymaster",
            Endpoint(
                "redis",
                "",
                0,
                watched=Watched("mymaster", (Address("::1", 26379), Address("a", 7), Address("b", 26379))),
            ),
        ),
        ("memory://tests", Endpoint("memory", "tests")),
        ("memory://tests/5", Endpoint("memory", "tests")),
    ],
)
def test_a_url_is_taken_apart(url: str, expected: Endpoint) -> None:
    assert Endpoint.parse(url) == expected


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "it has to begin with redis://"),
        ("localhost:6379", "it has to begin with redis://"),
        ("http://localhost", "it has to begin with redis://"),
        ("redis:localhost", "it has to begin with redis://"),
        ("redis://h:port", "[Pp]ort"),
        ("redis://h:99999", "[Pp]ort"),
        ("redis://[::1", "an IPv6 address has to be written in brackets"),
        ("redis://h/name", "the number of a database"),
        ("redis://h/0/1", "the number of a database"),
        ("redis://h/-1", "not less than 0"),
        ("unix://", "path of a socket"),
        ("unix://run/redis.sock", "path of a socket"),
        ("unix:///s?db=x", "the number of a database"),
        ("redis+sentinel://h", "addresses of sentinels and what they call the primary"),
        ("redis+sentinel://h1,h2/", "addresses of sentinels and what they call the primary"),
        ("redis+sentinel:///mymaster", "addresses of sentinels and what they call the primary"),
        ("redis+sentinel://h1,,h2/mymaster", "addresses of sentinels and what they call the primary"),
        ("redis+sentinel://h1,h2:port/mymaster", "[Pp]ort"),
        ("redis+sentinel://h/mymaster/x", "the number of a database"),
        ("redis+sentinel://h/mymaster?sentinel_username=a#b", "# as %23"),
        ("redis+sentinel://h1,[::1/mymaster", "in brackets"),
        ("redis+cluster://h", "not supported yet"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_with_a_reason(url: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason) as caught:
        Endpoint.parse(url)
    assert caught.value.subject == url


@pytest.mark.parametrize(
    "url",
    [
        "redis://h:7000/2",
        "redis://:PASSWORD@h:7000/0",
        "rediss://ada:PASSWORD@[::1]:7000/1?ssl_ca_certs=%2Fetc%2Fca.pem&ssl_cert_reqs=none",
        "unix:///run/a%20b/redis.sock?db=3",
        "unix:///run/redis.sock",
        "redis+sentinel://ada:PASSWORD@a:26379,b:26380/my%2Fmaster/2?sentinel_username=s&sentinel_password=PASSWORD",
    ],
)
def test_the_url_to_type_reaches_the_same_server(url: str) -> None:
    assert Endpoint.parse(url).to_type == url
    secret = Endpoint.parse(url.replace("PASSWORD", "s3cret"))
    assert secret.to_type == url


def test_a_password_is_never_shown() -> None:
    endpoint = Endpoint.parse("redis://me:s3cret@h:7000/2")
    assert endpoint.shown == "redis://h:7000/2"
    assert "s3cret" not in repr(endpoint)
    with pytest.raises(SettingsError) as caught:
        Endpoint.parse("redis://me:s3cret@h:7000/x")
    assert "s3cret" not in str(caught.value)


def test_nor_is_that_of_sentinels() -> None:
    url = "redis+sentinel://me:s3cret@a,b/mymaster/2?sentinel_password=s3cret"
    assert Endpoint.parse(url).shown == "redis+sentinel://a:26379,b:26379/mymaster/2"
    assert "s3cret" not in repr(Endpoint.parse(url))
    with pytest.raises(SettingsError) as caught:
        Endpoint.parse("redis+sentinel://a?sentinel_password=s3cret&ssl_cert_reqs=none")
    assert "s3cret" not in str(caught.value)
    assert caught.value.subject == "redis+sentinel://a?sentinel_password=...&ssl_cert_reqs=none"


def test_a_password_may_have_any_other_character() -> None:
    assert Endpoint.parse("redis://u:s\N{ACCOUNT OF}[cret@h").password == "s\N{ACCOUNT OF}[cret"
    with pytest.raises(SettingsError) as caught:
        Endpoint.parse("redis://u:s\N{ACCOUNT OF}cret@h/x")
    assert "cret" not in str(caught.value)


def test_where_sentinels_say_that_it_is() -> None:
    endpoint = Endpoint.parse("rediss+sentinel://me:pw@a/mymaster/2?ssl_ca_certs=/ca.pem")
    there = endpoint.at(Address("10.0.0.5", 7000))
    assert there == Endpoint.parse("rediss://me:pw@10.0.0.5:7000/2?ssl_ca_certs=/ca.pem")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("unix:///run/redis.sock?db=3", "unix:///run/redis.sock"),
        ("rediss://h", "rediss://h:6379/0"),
        ("redis://", "redis://127.0.0.1:6379/0"),
    ],
)
def test_what_is_shown(url: str, shown: str) -> None:
    assert Endpoint.parse(url).shown == shown


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://h", [("CLIENT", "SETNAME", "a_name")]),
        ("redis://:pw@h", [("AUTH", "pw"), ("CLIENT", "SETNAME", "a_name")]),
        (
            "redis://me:pw@h/2",
            [("AUTH", "me", "pw"), ("SELECT", "2"), ("CLIENT", "SETNAME", "a_name")],
        ),
    ],
)
def test_how_a_connection_begins(url: str, expected: list[tuple[str, ...]]) -> None:
    assert Endpoint.parse(url).greeting("a name") == expected


def test_certificates_are_checked_unless_the_url_says_otherwise() -> None:
    assert Endpoint.parse("redis://h").ssl_context() is None
    strict = Endpoint.parse("rediss://h").ssl_context()
    assert strict is not None
    assert strict.check_hostname
    assert strict.verify_mode is ssl.CERT_REQUIRED
    lax = Endpoint.parse("rediss://h?ssl_cert_reqs=none").ssl_context()
    assert lax is not None
    assert not lax.check_hostname
    assert lax.verify_mode is ssl.CERT_NONE


@pytest.mark.parametrize(
    "url",
    [
        "redis://u:VERYSECRET#x@127.0.0.1:1",
        "redis://u:VERYSECRET/x@127.0.0.1:1",
        "redis://u:VERY[SECRET/x@127.0.0.1:1",
        "redis+sentinel://u:VERYSECRET?x@a,b/mymaster",
        "redis+sentinel://a,b/mymaster?sentinel_password=VERY@SECRET#x",
    ],
)
def test_a_password_with_characters_that_end_it_is_not_shown(url: str) -> None:
    with pytest.raises(SettingsError, match="# as %23") as caught:
        Endpoint.parse(url)
    assert "SECRET" not in str(caught.value)
    assert caught.value.__cause__ is None
