from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from callboard.broker import BrokerSettings
from callboard.broker.errors import CommandError
from callboard.broker.redis.arguments import argument_constants, record_constants
from callboard.broker.redis.assembly import take_constants
from callboard.broker.redis.client.connection import Link
from callboard.broker.redis.client.endpoint import Endpoint
from callboard.broker.redis.keys import Keys
from callboard.broker.redis.library import (
    LIMITS,
    MAKERS,
    OPERATIONS,
    Library,
    Mark,
    is_missing,
    is_there_already,
    library,
)
from tests.conftest import pytest_sessionstart
from tests.helpers.lua import compile_lua
from tests.helpers.servers import ServerProcess, kinds


def test_the_library_has_a_function_for_every_operation() -> None:
    text = library().text
    assert text.startswith(f"#!lua name={library().name}\n")
    registered = re.findall(r"^register\('(\w+)'", text, re.MULTILINE)
    assert registered == list(OPERATIONS)
    assert library().function("turn") == f"{library().name}_turn"


LUA = Path(str(resources.files("callboard.broker.redis"))) / "lua"
FILES = sorted(LUA.rglob("*.lua"))


def test_every_lua_file_is_part_of_it() -> None:
    lines = set(library().text.splitlines())
    assert len(FILES) > len(OPERATIONS)
    for path in FILES:
        code = [line for line in _without_names(path) if line and not line.lstrip().startswith("--")]
        # A definition that later files use is written without `local`: it is made known before its file.
        missing = [line for line in code if line not in lines and line.removeprefix("local ") not in lines]
        assert [line for line in missing if not _is_announced_only(line)] == [], path.name


def _without_names(path: Path) -> list[str]:
    """The lines of a file in which no constant is named, nor a mark or an argument."""
    constants = {name for file in FILES for name in take_constants(file.read_text())[1]}
    of_arguments = {name for operation in OPERATIONS for name in argument_constants(operation)}
    names = {*constants, *LIMITS, *record_constants(), *of_arguments, *(mark.name for mark in Mark)}
    return [
        line for line in path.read_text().splitlines() if names.isdisjoint(re.findall(r"ARGV\.\w+|\w+", line))
    ]


def _is_announced_only(line: str) -> bool:
    return (line.startswith("local ") and "=" not in line and "(" not in line) or line.startswith(
        "local function "
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(LUA)))
def test_no_lua_file_is_long_and_each_begins_with_what_it_is(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert len(lines) <= 250
    assert lines[0].startswith("-- ")
    if path.parent == LUA or path.stem == path.parent.name:
        head = "\n".join(itertools.takewhile(lambda line: line.startswith("--"), lines))
        assert "-- ARGV: " in head
        assert "-- Returns " in head


MORE_LOCALS = 20
"""For which there has to be room, so that it is this test that fails when it gets short, and not every other."""


def test_there_is_room_for_more_locals() -> None:
    """Lua allows 200 at once: those that files share, and those of the operation that has most of its own."""
    more = ", ".join(f"more_{number}" for number in range(MORE_LOCALS))
    compile_lua(f"local {more}\n{library().text.partition(chr(10))[2]}")


def test_a_library_that_does_not_compile_ends_the_tests_before_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(library(), "text", "#!lua name=broken\nlocal x = = 1")
    with pytest.raises(pytest.UsageError, match="1: unexpected symbol near '='"):
        pytest_sessionstart()


def test_the_name_tells_versions_apart() -> None:
    assert re.fullmatch(r"callboard_[0-9a-f]{12}", library().name)
    assert library() is library()
    assert Library().name == library().name


@pytest.mark.parametrize("file", ["lua/shared/clock.lua", "lua/turn/turn.lua", "lua/idle.lua", *MAKERS])
def test_another_text_of_a_file_gives_another_name(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What makes the text counts as well: the files may be the same, and what is sent another."""
    for path in (*FILES, *(LUA.parent / name for name in MAKERS)):
        copy = tmp_path / path.relative_to(LUA.parent)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes() + (b"\n" if copy == tmp_path / file else b""))
    monkeypatch.setattr("callboard.broker.redis.library._HERE", tmp_path)
    assert Library().name != library().name


def test_files_that_are_replaced_while_a_process_runs_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Library()
    monkeypatch.setattr("callboard.broker.redis.library._HERE", Path("/nowhere"))
    assert made.text == library().text


@pytest.fixture(scope="module", params=kinds())
def server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
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
