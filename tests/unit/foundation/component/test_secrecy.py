"""What stays out of dumps."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretBytes, SecretStr, field_serializer

from callboard.foundation.component import MASK, harmless, is_secret_name, plain_data, revealed


class Colour(Enum):
    RED = "red"


class Inner(BaseModel):
    key: SecretStr = SecretStr("s3cret")
    name: str = "a"


class Folded(BaseModel):
    key: SecretStr = SecretStr("s3cret")

    @field_serializer("key", when_used="json")
    def _folded(self, key: SecretStr) -> list[str]:
        return [str(key)]


class Config(BaseModel):
    colour: Colour = Colour.RED
    path: Path = Path("/a")
    nothing: int | None = None
    inner: list[Inner | SecretStr] = [Inner(), SecretStr("s3cret"), Inner(name="b")]
    by_name: dict[str, SecretBytes | int] = {"a": SecretBytes(b"s3cret"), "b": 2}
    pair: tuple[str, SecretStr] = ("a", SecretStr("s3cret"))
    address: str = "postgres://ada:s3cret@host/db and https://host/@a or ssh://git@host"
    query: str = "https://host/?api_key=s3cret&page=2&author=me#key=a"
    target: str = "/a?X-Token=s3cret"
    prose: str = "say ?key=me"
    folded: Folded = Folded()


def test_a_config_becomes_plain_data_without_its_secrets() -> None:
    assert plain_data(Config()) == {
        "colour": "red",
        "path": "/a",
        "inner": [{"name": "a"}, {"name": "b"}],
        "by_name": {"b": 2},
        "pair": ["a"],
        "address": "postgres://host/db and https://host/@a or ssh://git@host",
        "query": "https://host/?api_key=&page=2&author=me#key=a",
        "target": "/a?X-Token=",
        "prose": "say ?key=me",
        "folded": {},
    }


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "X-Api-Key",
        "apiKey",
        "APIKey",
        "xApikey",
        "OPENAI_API_KEY",
        "Cookie",
        "--access_token",
        "accessToken",
        "DB_PASSWORD",
        "PGPASSWORD",
        "X-Amz-Signature",
        "GITHUB_PAT",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)
    assert harmless({name: "s3cret", "Accept": "text/html"}) == {"Accept": "text/html"}
    assert harmless({name: "s3cret"}) is None


@pytest.mark.parametrize(
    "name", ["max_tokens", "--max-tokens", "keyword", "X-Author", "Accept", "PATH", "monkeys", "passage", ""]
)
def test_names_of_other_things(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(("secret", "value"), [(None, None), (MASK, None), ("", None), ("s3cret", "s3cret")])
def test_a_mask_is_no_secret(secret: str | None, value: str | None) -> None:
    given: Any = None if secret is None else SecretStr(secret)
    assert revealed(given) == value
