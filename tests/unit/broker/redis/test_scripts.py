from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from typing import get_args

import pytest

from broker import BrokerSettings
from broker.errors import CommandError
from broker.redis.endpoint import Endpoint
from broker.redis.keys import Keys
from broker.redis.link import Link
from broker.redis.scripts import OPERATIONS, is_missing, is_there_already, library
from tests.helpers.servers import Kind, ServerProcess, missing


def test_the_library_has_a_function_for_every_operation() -> None:
    text = library().text
    assert text.startswith(f"#!lua name={library().name}\n")
    registered = re.findall(r"^register\('(\w+)'", text, re.MULTILINE)
    assert registered == list(OPERATIONS)
    assert library().function("step") == f"{library().name}_step"


def test_every_lua_file_is_part_of_it() -> None:
    folder = resources.files("broker.redis") / "lua"
    names = {path.name for path in folder.iterdir() if path.name.endswith(".lua")}
    assert names == {"common.lua", *(f"{name}.lua" for name in OPERATIONS)}


def test_comments_are_not_sent_and_nothing_else_is_left_out() -> None:
    lines = library().text.splitlines()
    assert not [line for line in lines if line.lstrip().startswith("--")]
    folder = resources.files("broker.redis") / "lua"
    for name in OPERATIONS:
        for line in (folder / f"{name}.lua").read_text().splitlines():
            assert not line.strip() or line.lstrip().startswith("--") or line in lines


def test_the_name_tells_versions_apart() -> None:
    assert re.fullmatch(r"callboard_[0-9a-f]{12}", library().name)
    assert library() is library()


@pytest.fixture(scope="module", params=get_args(Kind))
def server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    if reason := missing(request.param):
        pytest.skip(reason)
    with ServerProcess(request.param) as started:
        yield started


async def test_what_servers_say_of_a_library_is_understood(server: ServerProcess) -> None:
    link = Link(Endpoint.parse(server.url), Keys("test"), BrokerSettings())
    call = ("FCALL", library().function("idle"), 1, link.keys.prefix)
    with pytest.raises(CommandError) as missed:
        await link.command(*call)
    assert is_missing(missed.value)
    assert not is_there_already(missed.value)
    await link.command("FUNCTION", "LOAD", library().text)
    with pytest.raises(CommandError) as known:
        await link.command("FUNCTION", "LOAD", library().text)
    assert is_there_already(known.value)
    assert not is_missing(known.value)
    link.close()


async def test_a_library_of_another_version_is_left_alone(server: ServerProcess) -> None:
    link = Link(Endpoint.parse(server.url), Keys("test"), BrokerSettings())
    other = library().text.replace(library().name, "callboard_000000000000")
    await link.command("FUNCTION", "LOAD", "REPLACE", other)
    assert await link.run("idle", ()) == await link.command(
        "FCALL", "callboard_000000000000_idle", 1, link.keys.prefix
    )
    link.close()
