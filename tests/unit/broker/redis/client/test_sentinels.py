from __future__ import annotations

import pytest

from callboard.broker.errors import ConnectionLostError, ServerUnavailableError
from callboard.broker.redis.client.endpoint import Address, Endpoint
from callboard.broker.redis.client.sentinels import PrimarySearch, as_server, check_role

OLD, NEW = (b"10.0.0.1", b"6379"), (b"10.0.0.2", b"6379")


def search(url: str = "redis+sentinel://a,b,c/mymaster") -> PrimarySearch:
    endpoint = Endpoint.parse(url)
    assert endpoint.watched is not None
    return PrimarySearch(endpoint, endpoint.watched, timeout=6.0)


def test_what_most_of_them_say_counts_whoever_is_asked_first() -> None:
    for _ in range(20):
        found = search()
        for sentinel in found.sentinels():
            found.heard(sentinel, OLD if sentinel.host == "b" else NEW)
        assert found.primary().host == "10.0.0.2"


def test_nobody_is_asked_once_most_are_of_one_mind() -> None:
    found, asked = search(), []
    for sentinel in found.sentinels():
        asked.append(sentinel)
        found.heard(sentinel, NEW)
    assert len(asked) == 2


def test_one_that_can_be_asked_is_enough() -> None:
    found = search()
    for sentinel in found.sentinels():
        if sentinel.host == "c":
            found.heard(sentinel, NEW)
        else:
            found.failed(sentinel, ConnectionLostError(sentinel.shown, "refused"))
    assert found.primary() == Endpoint("redis", "10.0.0.2", 6379)


def test_sentinels_of_two_minds_do_not_leave_it_to_chance() -> None:
    for _ in range(10):
        found = search()
        for sentinel in found.sentinels():
            if sentinel.host == "c":
                found.failed(sentinel, ConnectionLostError(sentinel.shown, "refused"))
            else:
                found.heard(sentinel, NEW if sentinel.host == "b" else OLD)
        with pytest.raises(
            ServerUnavailableError, match=r"do not agree .* 10\.0\.0\.1:6379 and 10\.0\.0\.2:6379\)"
        ):
            found.primary()


@pytest.mark.parametrize(
    "answer", [b"OK", 7, [], [b"h"], [b"h", b"port"], [b"h", 7], [b"h", b"-1"], ["h", "1"]]
)
def test_who_is_no_sentinel_stops_nothing(answer: object) -> None:
    found = search()
    for sentinel in found.sentinels():
        found.heard(sentinel, NEW if sentinel.host == "a" else answer)
    assert found.primary().host == "10.0.0.2"
    found = search("redis+sentinel://[::1]/mymaster")
    for sentinel in found.sentinels():
        found.heard(sentinel, answer)
    with pytest.raises(ServerUnavailableError, match=r"\[::1\]:26379 answers what no sentinel would"):
        found.primary()


def test_why_none_knows() -> None:
    found = search("redis+sentinel://a:1,b:2,c:3/mymaster")
    for sentinel in found.sentinels():
        if sentinel.host == "a":
            found.heard(sentinel, None)
        elif sentinel.host == "b":
            found.failed(sentinel, ConnectionLostError(sentinel.shown, "refused"))
        else:
            found.failed(sentinel, ServerUnavailableError(sentinel.shown, "NOAUTH", "login"))
    with pytest.raises(ServerUnavailableError) as caught:
        found.primary()
    assert caught.value.url == "redis+sentinel://a:1,b:2,c:3/mymaster/0"
    assert caught.value.reason == (
        "no sentinel says where the primary is: a:1 watches no 'mymaster'; b:2 can't be asked (refused); "
        "c:3 can't be asked (NOAUTH)"
    )


def test_they_share_the_time() -> None:
    assert search().patience == 2.0


def test_sentinels_have_a_login_of_their_own_and_the_encryption_of_the_server() -> None:
    endpoint = Endpoint.parse(
        "rediss+sentinel://me:pw@a/mymaster/2?ssl_ca_certs=/ca.pem&sentinel_username=s&sentinel_password=t"
    )
    assert endpoint.watched is not None
    found = as_server(endpoint, endpoint.watched, Address("a", 26379))
    assert found == Endpoint.parse("rediss://s:t@a:26379/0?ssl_ca_certs=/ca.pem")


def test_a_replica_is_no_primary() -> None:
    primary = Endpoint("redis", "a")
    check_role(primary, [b"master", 0, []])
    with pytest.raises(ServerUnavailableError, match="it is a replica"):
        check_role(primary, [b"slave", b"b", 6379, b"connected", 0])
