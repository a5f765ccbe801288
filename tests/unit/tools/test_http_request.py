"""The place of each argument in the request of an HTTP tool, and the request that follows a redirect."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callboard.tools.errors import HttpToolError, ToolArgumentsError
from callboard.tools.http import HttpRequest, build_target


def request(**changes: Any) -> HttpRequest:
    values: dict[str, Any] = {
        "method": "POST",
        "scheme": "https",
        "host": "api.example.com",
        "port": 443,
        "target": "/a/b?x=1",
        "headers": {"Authorization": "secret"},
        "body": b"{}",
    }
    return HttpRequest(**{**values, **changes})


def test_arguments_go_into_path_query_and_body() -> None:
    arguments = {"id": "a/b c", "q": "ä&b", "tags": ["x", "y"], "on": True}
    target, body = build_target("/items/{id}", "GET", (), arguments, "t")
    assert (target, body) == ("/items/a%2Fb%20c?q=%C3%A4%26b&tags=x&tags=y&on=true", None)
    target, body = build_target("/items/{id}?v=2", "POST", ("q",), arguments, "t")
    assert target == "/items/a%2Fb%20c?v=2&q=%C3%A4%26b"
    assert json.loads(body or b"") == {"tags": ["x", "y"], "on": True}


@pytest.mark.parametrize("value", ["", ".", "..", None])
def test_an_argument_can_not_lead_out_of_its_path(value: str | None) -> None:
    with pytest.raises(ToolArgumentsError, match="id: it is part of a path"):
        build_target("/items/{id}", "GET", (), {"id": value}, "t")


@pytest.mark.parametrize(
    "value", ["../../admin", "a?b#c", "x@host", "//host", "%2e%2e", "\r\nX: y", "\ud800"]
)
def test_an_argument_is_one_segment_whatever_it_is(value: str) -> None:
    target, _ = build_target("/items/{id}/x", "GET", (), {"id": value}, "t")
    middle = target.removeprefix("/items/").removesuffix("/x")
    assert not set(middle) & set("/?#@\r\n")
    assert middle not in (".", "..")


def test_an_address_of_version_6_has_brackets() -> None:
    assert request(host="::1", port=8080).authority == "[::1]:8080"
    assert request().authority == "api.example.com"
    assert request(scheme="http", port=443).authority == "api.example.com:443"


@pytest.mark.parametrize(
    ("status", "location", "expected"),
    [
        (307, "/c", ("POST", "https", "api.example.com", 443, "/c", b"{}")),
        (302, "c?d=e f", ("GET", "https", "api.example.com", 443, "/a/c?d=e%20f", None)),
        (303, "//other.example.com/ü", ("GET", "https", "other.example.com", 443, "/%C3%BC", None)),
        (308, "https://other.example.com", ("POST", "https", "other.example.com", 443, "/", b"{}")),
    ],
)
def test_redirects(status: int, location: str, expected: tuple[Any, ...]) -> None:
    moved = request().redirected(status, location)
    assert (moved.method, moved.scheme, moved.host, moved.port, moved.target, moved.body) == expected


def test_headers_stay_with_the_host_that_they_are_for() -> None:
    assert request().redirected(302, "/c").headers == {"Authorization": "secret"}
    for location in ("https://other.example.com/", "https://user:pw@api.example.com.evil.test/"):
        assert request().redirected(302, location).headers == {}
    assert request(scheme="http", port=80).redirected(301, "https://api.example.com/").headers == {}


@pytest.mark.parametrize(
    ("location", "problem"),
    [
        ("http://api.example.com/", "from https to http"),
        ("ftp://api.example.com/", "http or https"),
        ("file:///etc/passwd", "http or https"),
        ("javascript:alert(1)", "http or https"),
        ("https://api.example.com:22/", "the port 22"),
        ("https://api.example.com:99999/", "names no address"),
        ("https://[oops/", "names no address"),
    ],
)
def test_redirects_that_are_not_followed(location: str, problem: str) -> None:
    with pytest.raises(HttpToolError, match=problem):
        request().redirected(302, location)
