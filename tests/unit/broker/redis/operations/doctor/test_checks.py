"""The checks that are about the server, by what it says of itself; those about a namespace are in test_examination."""

from __future__ import annotations

import time
from typing import Any

import pytest

from callboard.broker.errors import CommandError
from callboard.broker.redis.operations import server_checks

from .faked import FakeSubject, subject

GOOD = {"redis_version": "8.10.1", "redis_mode": "standalone", "aof_enabled": "1", "role": "master"}


def levels(findings: Any) -> list[str]:
    return [str(finding.level) for finding in findings]


@pytest.mark.parametrize(
    ("info", "wanted", "says"),
    [
        (GOOD, ["ok"], "Redis 8.10.1"),
        ({"redis_version": "6.2.20"}, ["error"], "too old"),
        ({"redis_version": "7.0.15"}, ["ok", "info"], "no fixes"),
        ({"redis_version": "7.2.4", "valkey_version": "9.0.5"}, ["ok"], "Valkey 9.0.5"),
        ({"redis_version": "7.2.9-rc1"}, ["ok"], "7.2.9"),
        ({}, ["error"], "Redis 0.0.0 is too old"),
    ],
)
async def test_versions(info: dict[str, str], wanted: list[str], says: str) -> None:
    findings = await server_checks.examine_server(subject(info=info))
    assert levels(findings) == wanted
    assert says in " ".join(finding.what for finding in findings)


@pytest.mark.parametrize(
    ("info", "settings", "wanted"),
    [
        ({"aof_enabled": "1"}, {"appendfsync": "always"}, ["ok"]),
        ({"aof_enabled": "1"}, {"appendfsync": "everysec"}, ["ok"]),
        ({"aof_enabled": "1"}, {"appendfsync": "no"}, ["warning"]),
        ({"aof_enabled": "1"}, {}, ["info"]),
        ({"aof_enabled": "0"}, {"save": "3600 1"}, ["error"]),
        ({"aof_enabled": "0"}, {"save": ""}, ["error"]),
        ({"aof_enabled": "0"}, {}, ["error"]),
        ({"aof_enabled": "1", "aof_last_write_status": "err"}, {"appendfsync": "always"}, ["ok", "error"]),
        ({"aof_enabled": "1", "rdb_last_bgsave_status": "err"}, {"appendfsync": "always"}, ["ok", "error"]),
        ({"aof_enabled": "1", "loading": "1"}, {"appendfsync": "always"}, ["ok", "warning"]),
        ({"aof_enabled": "1", "aof_rewrites": "0"}, {"appendfsync": "always"}, ["ok", "info"]),
        ({"aof_enabled": "1", "aof_rewrites": "1"}, {"appendfsync": "always"}, ["ok"]),
    ],
)
async def test_persistence(info: dict[str, str], settings: dict[str, str], wanted: list[str]) -> None:
    assert levels(await server_checks.examine_persistence(subject(info=info, settings=settings))) == wanted


@pytest.mark.parametrize(
    ("info", "wanted"),
    [
        ({"maxmemory_policy": "noeviction", "used_memory": "1"}, ["ok", "info"]),
        ({"maxmemory_policy": "allkeys-lru", "used_memory": "1"}, ["error", "info"]),
        ({"maxmemory_policy": "volatile-ttl", "used_memory": "1"}, ["error", "info"]),
        ({"used_memory": "10", "maxmemory": "100"}, ["ok", "ok"]),
        ({"used_memory": "85", "maxmemory": "100"}, ["ok", "warning"]),
        ({"used_memory": "99", "maxmemory": "100"}, ["ok", "error"]),
        ({"used_memory": "10", "maxmemory": "100", "evicted_keys": "3"}, ["ok", "ok", "error"]),
    ],
)
async def test_memory(info: dict[str, str], wanted: list[str]) -> None:
    assert levels(await server_checks.examine_memory(subject(info=info))) == wanted


@pytest.mark.parametrize(
    ("ahead_ms", "last", "wanted"),
    [
        (0, None, ["ok", "ok"]),
        (0, -5000, ["ok", "ok"]),
        (0, 60_000, ["ok", "warning"]),
        (3_600_000, 0, ["warning", "ok"]),
        (-3_600_000, 3_700_000, ["warning", "warning"]),
    ],
)
async def test_clocks(ahead_ms: int, last: int | None, wanted: list[str]) -> None:
    now = time.time() * 1000 + ahead_ms
    clock_text = None if last is None else f"{int(now + last)}-3".encode()
    answers = {
        "TIME": [str(int(now // 1000)).encode(), str(int(now % 1000) * 1000).encode()],
        "GET": clock_text,
    }
    assert levels(await server_checks.examine_clock(subject(answers=answers))) == wanted


async def test_a_clock_that_is_none_mends_itself() -> None:
    now = [str(int(time.time())).encode(), b"0"]
    findings = await server_checks.examine_clock(subject(answers={"TIME": now, "GET": b"soon"}))
    assert "mends itself" in findings[1].do


async def test_latency_is_measured() -> None:
    (finding,) = await server_checks.examine_latency(subject(answers={"PING": "PONG"}))
    assert "a round trip takes" in finding.what


REPLICA = "ip=10.0.0.2,port=6379,state=online,offset={offset},lag={lag}"


@pytest.mark.parametrize(
    ("info", "durability", "wanted"),
    [
        ({"role": "master"}, "server", ["info"]),
        ({"role": "master"}, "replica", ["error"]),
        ({"role": "slave", "master_host": "a", "master_port": "1"}, "server", ["error"]),
        (
            {"role": "master", "master_repl_offset": "9", "slave0": REPLICA.format(offset=9, lag=0)},
            "replica",
            ["ok"],
        ),
        (
            {"role": "master", "master_repl_offset": "99000000", "slave0": REPLICA.format(offset=9, lag=0)},
            "server",
            ["ok", "warning"],
        ),
        (
            {"role": "master", "master_repl_offset": "9", "slave0": REPLICA.format(offset=9, lag=60)},
            "server",
            ["ok", "warning"],
        ),
        (
            {"role": "master", "slave0": "ip=10.0.0.2,port=1,state=wait_bgsave,offset=0,lag=0"},
            "replica",
            ["error"],
        ),
    ],
)
async def test_replicas(info: dict[str, str], durability: str, wanted: list[str]) -> None:
    assert levels(await server_checks.examine_replica(subject(info=info, durability=durability))) == wanted


async def test_rights_are_asked_for_without_being_used() -> None:
    one = FakeSubject(answers={"ACL WHOAMI": b"app", "ACL DRYRUN": b"OK"})
    first, second = await server_checks.examine_permissions(one)
    assert (first.level, second.level) == ("ok", "info")
    assert "flushall" in second.what
    assert not [words for words in one.asked if not words.startswith("ACL ")]


async def test_what_is_missing_is_named() -> None:
    refusal = b"User app has no permissions to run the 'hset' command"
    one = subject(
        answers={
            "ACL WHOAMI": b"app",
            "ACL DRYRUN app HSET": refusal,
            "ACL DRYRUN app hset": refusal,
            "ACL DRYRUN": b"OK",
        }
    )
    (finding,) = await server_checks.examine_permissions(one)
    assert finding.level == "error"
    assert "may not run hset" in finding.what
    assert "callboard acl worker" in finding.do


async def test_without_the_right_to_ask_each_command_is_tried() -> None:
    denied = CommandError("NOPERM this user has no permissions to run the 'acl' command")
    answers = {
        "ACL": denied,
        "xack": CommandError("NOPERM this user has no permissions to run the 'xack' command"),
        "hset": CommandError("WRONGTYPE Operation against a key holding the wrong kind of value"),
    }
    (finding,) = await server_checks.examine_permissions(subject(answers=answers))
    assert "the user of this connection may not run xack" in finding.what
