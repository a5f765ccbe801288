"""Checks of the server: version, way, clocks, memory, libraries, rights; and what a crash would cost."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from callboard.broker.errors import BrokerError, CommandError, OverloadedError, ServerUnavailableError
from callboard.broker.redis.client.blocking import is_as_it_was
from callboard.broker.redis.client.endpoint import Endpoint, Watched
from callboard.broker.redis.client.sentinels import PrimarySearch, as_server, ask
from callboard.broker.redis.keys import Keys
from callboard.broker.redis.library import library
from callboard.foundation.texts import shell_line

from .acl import KEY, RUNTIME, SAMPLES
from .doctor import Finding, Subject, check, error, info, ok, server_line, some, warning
from .namespaces import code_on, old_libraries

Version = tuple[int, int, int]
Product = Literal["Redis", "Valkey"]

OLDEST: Final = (7, 0, 0)
MAINTAINED_FROM: Final = (
    7,
    2,
    0,
)  # older branches get no fixes any more; which newer ones do, their projects say


IN_MEMORY: Final = warning(
    "the server is the stand-in of memory:// URLs",
    "everything is gone when this process ends, and no other process can take part",
    "use it for tests only: give a redis:// URL, or none for the embedded server",
)


@check("server", order=10)
async def examine_server(subject: Subject) -> Sequence[Finding]:
    """The version, and whether its branch was given up."""
    if subject.is_in_memory:
        return [IN_MEMORY]
    facts = await subject.info()
    product, version = server_of(facts)
    shown = f"{product} {'.'.join(map(str, version))}"
    if version < OLDEST:
        why = "the functions that deliver messages need Redis 7.0 or Valkey"
        return [error(f"{shown} is too old", why, "upgrade the server")]
    running = ok(f"{shown}, {facts.get('redis_mode', 'standalone')}")
    return [running] if version >= MAINTAINED_FROM else [running, _given_up(shown)]


def _given_up(shown: str) -> Finding:
    return info(
        f"{shown} gets no fixes from its project any more",
        "holes that were found since are open, unless your distribution has patched its build",
        "upgrade to a version that redis.io or valkey.io lists as supported",
    )


def server_of(facts: Mapping[str, str]) -> tuple[Product, Version]:
    """Product and version by the fields of INFO; Valkey names the version of Redis that it is compatible with as well."""
    product: Product = "Valkey" if "valkey_version" in facts else "Redis"
    text = facts.get("valkey_version") or facts.get("redis_version") or "0.0.0"
    parts = [int("".join(filter(str.isdigit, part)) or 0) for part in text.split("-")[0].split(".")]
    major, minor, patch = [*parts, 0, 0, 0][:3]
    return product, (major, minor, patch)


TRIPS = 20
SLOW, VERY_SLOW = 5.0, 50.0  # ms


@check("latency", order=50)
async def examine_latency(subject: Subject) -> Sequence[Finding]:
    """The middle one of some PINGs."""
    taken: list[float] = []
    for _ in range(TRIPS):
        before = time.perf_counter()
        await subject.command("PING")
        taken.append((time.perf_counter() - before) * 1000)
    taken.sort()
    middle, worst = taken[TRIPS // 2], taken[-1]
    shown = f"a round trip takes {middle:.2f} ms, the slowest of {TRIPS} took {worst:.2f} ms"
    if middle < SLOW:
        return [ok(shown)]
    why = "each worker's turn and each publish waits for one"
    if middle < VERY_SLOW:
        return [info(shown, why, "run workers near the server where speed matters")]
    return [
        warning(
            shown, why, f"look for a loaded network, or slow commands: {subject.cli('SLOWLOG', 'GET', '10')}"
        )
    ]


APART, AHEAD = 1000, 1000  # ms


@check("clock", order=40)
async def examine_clock(subject: Subject) -> Sequence[Finding]:
    """How far they are apart."""
    before = time.time() * 1000
    server = await subject.now_ms()
    apart = round(server - (before + time.time() * 1000) / 2)
    if abs(apart) <= APART:
        machine = ok(f"this machine's clock is within {APART} ms of the server's")
    else:
        machine = warning(
            f"this machine's clock is {abs(apart) / 1000:.1f} s {'behind' if apart > 0 else 'ahead of'} the server's",
            "leases and timers go by the server's clock and do not care; times in logs and `at=` from this machine are off",
            "synchronise both clocks: timedatectl set-ntp true",
        )
    return [machine, await _ids(subject, server)]


async def _ids(subject: Subject, server: int) -> Finding:
    """Entry ids come from a clock of the namespace, which only rises."""
    last = await subject.of("GET", "clock")
    found = re.fullmatch(rb"(\d+)-(\d+)", last) if last else None
    if last and not found:
        return warning(
            f"the namespace's clock reads {last!r}",
            "the next message starts it anew",
            "nothing: it mends itself",
        )
    ahead = int(found[1]) - server if found else 0
    if ahead <= AHEAD:
        return ok("the namespace's clock is not ahead of the server's")
    return warning(
        f"the namespace's clock is {ahead / 1000:.1f} s ahead of the server's",
        "the server's clock was set back, or an entry was added by hand with an id of the future; order is kept, but "
        "ids no longer tell when a message was published. Where the clock was set back, what was due by it then (delayed "
        "messages, schedules, the end of questions, an agent's next attempt) waits until it has caught up",
        "synchronise the server's clock; ids are right again when it has caught up",
    )


FULL, NEARLY = 0.95, 0.8  # parts of maxmemory


@check("memory", order=30)
async def examine_memory(subject: Subject) -> Sequence[Finding]:
    """Eviction policy, and memory used against the limit."""
    if subject.is_in_memory:
        return []
    facts = await subject.info()
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy == "noeviction":
        eviction = ok("maxmemory-policy noeviction: nothing is thrown away")
    else:
        eviction = error(
            f"maxmemory-policy {policy}",
            "when memory is full the server deletes keys by itself: messages, states and leases vanish without a trace",
            subject.setting_line("maxmemory-policy", "noeviction"),
        )
    return [eviction, _usage(subject, facts), *_evicted(facts)]


def _usage(subject: Subject, facts: Mapping[str, str]) -> Finding:
    used, limit = int(facts.get("used_memory", 0)), int(facts.get("maxmemory", 0))
    if not limit:
        return info(
            f"{megabytes(used)} used, no limit",
            "without maxmemory the operating system kills the server when memory ends; with it publishers get "
            "OverloadedError and commits go on",
            subject.setting_line("maxmemory", "BYTES"),
        )
    part = used / limit
    shown = f"{megabytes(used)} of {megabytes(limit)} used ({part:.0%})"
    if part < NEARLY:
        return ok(shown)
    advice = "see what waits: callboard status; raise maxmemory, add workers, or set a lower `retain`"
    if part < FULL:
        return warning(shown, "publishers are refused when it is full", advice)
    return error(shown, "publishers are refused now; commits go on and make room", advice)


def _evicted(facts: Mapping[str, str]) -> Sequence[Finding]:
    count = int(facts.get("evicted_keys", 0))
    if not count:
        return []
    return [
        error(
            f"{count} keys were evicted since the server started",
            "each may have been a message, a state or a lease",
            "set maxmemory-policy noeviction, then see what is broken: callboard repair",
        )
    ]


def megabytes(number: int) -> str:
    """A size for people."""
    return f"{number / 1_000_000:.1f} MB"


@check("libraries", order=65)
async def examine_libraries(subject: Subject) -> Sequence[Finding]:
    """Whether the functions of this version are there and as they are here; and which others there are."""
    if subject.is_in_memory:
        return [ok("the functions are in this process")]
    return [*await _own_library(subject), *await _old_libraries(subject)]


async def _own_library(subject: Subject) -> Sequence[Finding]:
    text, name = await code_on(subject.transport), library().name
    line = shell_line("callboard", "deploy", "--url", "URL")
    do = f"{line}, as a user with the rules of `callboard acl deploy`"
    if text == library().text:
        return [ok("the functions of this version are on the server as they are here")]
    if text is not None:
        return [
            error(
                f"the functions {name} on the server are not those of this version: somebody has replaced them",
                "they run with the rights of every user that calls them, on every namespace of the server",
                f"find out who may load functions (callboard server cli ACL LIST), then: {do}",
            )
        ]
    if await _is_taken(subject, None, LOAD_NOTHING):
        return [ok("the functions of this version are not on the server; the first process loads them")]
    return [
        error(
            f"the server lacks the functions of this version ({name}), and this user may not load them",
            "no process of this version that connects as such a user can publish or handle anything",
            do,
        )
    ]


async def _old_libraries(subject: Subject) -> Sequence[Finding]:
    names = await old_libraries(subject.transport)
    if not names:
        return [ok("the server has no functions of other versions")]
    return [
        info(
            f"the server has the functions of {len(names)} other versions of Callboard: {some(names)}",
            "each takes about 0.6 MB; processes of two versions may be running beside each other",
            "when all processes have this version: callboard repair --libraries --yes",
        )
    ]


SCRATCH = "doctor"
LOAD_NOTHING = ("FUNCTION", "LOAD", "none")
"""It is refused in any case, as no library or for the lack of the right."""

DANGEROUS = (
    *("flushall", "keys", "config|set", "config|get", "shutdown", "debug", "restore", "eval"),
    "function|load",
)
DANGEROUS_SAMPLES: Mapping[str, tuple[str, ...]] = {
    "function|load": ("none",),
    "config|get": ("requirepass",),
    "flushall": (),
    "keys": ("*",),
    "config|set": ("maxmemory", "0"),
    "shutdown": (),
    "debug": ("sleep", "0"),
    "restore": (KEY, "0", "x"),
    "eval": ("return 1", "0"),
}


@check("permissions", order=15)
async def examine_permissions(subject: Subject) -> Sequence[Finding]:
    """With ACL DRYRUN where the user may run it, else by trying each command on a key of its own that expires."""
    if subject.is_in_memory:
        return []
    user = await _who(subject)
    dry = await _may_dry_run(subject, user)
    missing = [
        name for name in RUNTIME if not await _may(subject, user if dry else None, name, SAMPLES[name])
    ]
    if missing:
        return [
            error(
                f"the user {user} may not run {some(missing, 12)}",
                "a worker that connects as this user fails; a publisher needs less",
                f"{subject.acl('worker')}: shows the rules to set",
            )
        ]
    return [
        ok(f"the user {user} may run all that a worker needs"),
        *await _loading(subject, user, dry),
        *await _too_much(subject, user, dry),
    ]


async def _loading(subject: Subject, user: str, dry: bool) -> Sequence[Finding]:
    """A user who is confined to its namespace, and may load functions, is not confined."""
    asked = user if dry else None
    another = ("GET", Keys("of-another").of(SCRATCH))
    if await _is_taken(subject, asked, another) or not await _is_taken(subject, asked, LOAD_NOTHING):
        return []
    return [
        warning(
            f"the user {user} is confined to keys, and may load functions",
            "a function runs with the rights of each user who calls it: this user, or a thief of its password, can replace "
            "those of all namespaces, and so read and write what is in them",
            f"{subject.acl('worker')}: rules without this right; `callboard deploy` loads them, as a user of its own",
        )
    ]


async def _who(subject: Subject) -> str:
    try:
        name: bytes = await subject.command("ACL", "WHOAMI")
    except CommandError:
        return "of this connection"
    return name.decode(errors="replace")


async def _may_dry_run(subject: Subject, user: str) -> bool:
    try:
        await subject.command("ACL", "DRYRUN", user, "PING")
    except CommandError:
        return False
    return True


async def _too_much(subject: Subject, user: str, dry: bool) -> Sequence[Finding]:
    """The commands that must not be tried: only asked where the server answers without doing it."""
    if not dry:
        return []
    allowed = [name for name in DANGEROUS if await _may(subject, user, name, DANGEROUS_SAMPLES[name])]
    if not allowed:
        return []
    return [
        info(
            f"the user {user} may also run {', '.join(allowed)}",
            "a stolen password, or a mistake in an app, can cost the whole server",
            f"{subject.acl('worker')}: a user with no more than is needed",
        )
    ]


async def _may(subject: Subject, user: str | None, name: str, sample: Sequence[str]) -> bool:
    key = subject.transport.keys.of(SCRATCH)
    words = [*name.split("|"), *(key if word == KEY else word for word in sample)]
    if user is None:
        with contextlib.suppress(CommandError, OverloadedError):
            await subject.command("SET", key, "doctor", "PX", 10_000)
    return await _is_taken(subject, user, words)


async def _is_taken(subject: Subject, user: str | None, words: Sequence[str]) -> bool:
    """Whether the server would run this command for a user; None: for this one, by sending it."""
    if user is not None:
        return bool(await subject.command("ACL", "DRYRUN", user, *words) == b"OK")
    try:
        await subject.command(*words)
    except OverloadedError:
        return True
    except CommandError as refused:
        return not str(refused).startswith("NOPERM")
    return True


@check("persistence", order=20)
async def examine_persistence(subject: Subject) -> Sequence[Finding]:
    """Append-only file, its syncing, snapshots, and how the last writes of them went."""
    if subject.is_in_memory:
        return []
    facts = await subject.info()
    findings = [await _file(subject, facts), *_last_writes(facts), *_since_start(subject, facts)]
    if facts.get("loading", "0") != "0":
        findings.append(
            warning(
                "the server still loads its file",
                "commands are refused until it has",
                "wait, then look again",
            )
        )
    return findings


async def _file(subject: Subject, facts: Mapping[str, str]) -> Finding:
    sync = await subject.setting("appendfsync")
    if facts.get("aof_enabled") == "1":
        return _synced(subject, sync)
    on = subject.setting_line("appendonly", "yes")
    save = await subject.setting("save")
    if save is None:
        return error(
            "no append-only file; whether there are snapshots this user may not ask",
            "a crash loses everything since the last snapshot, or all, acknowledged messages included",
            on,
        )
    if save:
        return error(
            f"no append-only file, only snapshots (save {save})",
            "a crash loses everything since the last snapshot, acknowledged messages included",
            on,
        )
    return error("nothing is written to disk", "a crash or restart loses every message and every state", on)


def _since_start(subject: Subject, facts: Mapping[str, str]) -> Sequence[Finding]:
    if not is_as_it_was(facts):
        return []
    return [
        info(
            "the append-only file was not written anew since the server began",
            "after a crash half of a commit may stand at its end, which Redis would carry out with its next start",
            f"{subject.cli('BGREWRITEAOF')}; workers do so by themselves, unless their user may not or "
            "CALLBOARD_RENEW_FILE=0",
        )
    ]


def _synced(subject: Subject, sync: str | None) -> Finding:
    if sync == "always":
        return ok("append-only file, synced with every write")
    if sync == "everysec":
        return ok(
            "append-only file, synced every second: a crash of the machine may cost the last second, as whole commits"
        )
    if sync == "no":
        return warning(
            "the append-only file is synced when the operating system likes (appendfsync no)",
            "a crash of the machine may cost half a minute of commits",
            subject.setting_line("appendfsync", "everysec"),
        )
    return info(
        "append-only file; how often it is synced is not known",
        do=subject.reading_line("appendfsync"),
    )


def _last_writes(facts: Mapping[str, str]) -> Sequence[Finding]:
    names = {
        "aof_last_write_status": "the last write of the append-only file",
        "aof_last_bgrewrite_status": "the last rewrite of the append-only file",
        "rdb_last_bgsave_status": "the last snapshot",
    }
    return [
        error(
            f"{what} failed",
            "the server may refuse writes, and a restart would bring back an old state",
            "look for a full disk or missing rights: df -h, and the server's log",
        )
        for name, what in names.items()
        if facts.get(name, "ok") != "ok"
    ]


BEHIND = 10_000_000  # bytes
SILENT = 10  # seconds


@check("replica", order=60)
async def examine_replica(subject: Subject) -> Sequence[Finding]:
    """Role, replicas, and how far behind they are."""
    if subject.is_in_memory:
        return []
    facts = await subject.info()
    if facts.get("role") in ("slave", "replica"):
        return [
            error(
                "this server is a replica",
                "it refuses writes, so nothing can be published or handled here",
                f"connect to its primary, {facts.get('master_host')}:{facts.get('master_port')}",
            )
        ]
    replicas = [facts[name] for name in sorted(facts) if re.fullmatch(r"slave\d+", name)]
    online = [replica for replica in replicas if _value(replica, "state") == "online"]
    return [
        _wanted(subject, online),
        *(finding for one in replicas if (finding := _lagging(subject, one, facts))),
    ]


def _wanted(subject: Subject, online: Sequence[str]) -> Finding:
    shown = f"{len(online)} replicas online"
    if online:
        return ok(shown)
    if subject.settings.durability == "replica":
        return error(
            'durability="replica" and no replica is online',
            "every publish waits for one and fails",
            'start a replica (redis-server --replicaof HOST PORT), or set durability to "server"',
        )
    return info("no replica", "when the machine is lost, so is what is in the server")


def _lagging(subject: Subject, replica: str, facts: Mapping[str, str]) -> Finding | None:
    behind = int(facts.get("master_repl_offset", 0)) - int(_value(replica, "offset") or 0)
    silent = int(_value(replica, "lag") or 0)
    if behind < BEHIND and silent < SILENT:
        return None
    return warning(
        f"the replica {_value(replica, 'ip')}:{_value(replica, 'port')} is {behind} bytes and {silent} s behind",
        "after a failover what it had not got is lost",
        f"look at its load and network: {subject.cli('INFO', 'replication')}",
    )


def _value(replica: str, name: str) -> str:
    """A field of `ip=...,port=...,state=online,...`."""
    found = re.search(rf"(?:^|,){name}=([^,]*)", replica)
    return found[1] if found else ""


@check("sentinels", order=61)
async def examine_sentinels(subject: Subject) -> Sequence[Finding]:
    """Each sentinel by itself; and whether a primary that was replaced would go on taking writes."""
    endpoint = subject.transport.endpoint
    if subject.is_in_memory:
        return []
    if endpoint.watched is None:
        return [ok("the URL names the server itself")]
    silent, named = await _ask_all(endpoint, endpoint.watched, subject.settings.connect_timeout)
    one = as_server(endpoint, endpoint.watched, endpoint.watched.sentinels[0])
    findings = [_agreement(named, server_line(one, "SENTINEL", "MASTERS")), *silent]
    if await subject.setting("min-replicas-to-write") == "0":
        findings.append(
            info(
                "the primary takes writes without a replica (min-replicas-to-write 0)",
                "one that is cut off takes writes that will be lost, until its clients have left it",
                f"with two replicas or more, on all of them: {subject.setting_line('min-replicas-to-write', '1')}",
            )
        )
    return findings


async def _ask_all(endpoint: Endpoint, watched: Watched, timeout: float) -> tuple[list[Finding], list[str]]:
    """Findings about sentinels that do not answer well, and the primaries that the others name."""
    silent, named = [], []
    for address in watched.sentinels:
        search, sentinel = PrimarySearch(endpoint, watched, timeout), as_server(endpoint, watched, address)
        try:
            search.heard(sentinel, await ask(sentinel, search))
            named.append(search.primary().shown)
        except BrokerError as problem:
            reason = problem.reason if isinstance(problem, ServerUnavailableError) else str(problem)
            silent.append(
                warning(
                    f"the sentinel {address} is of no use: {reason}",
                    "with too few of them nobody takes over when the primary dies, or nobody hears of it",
                    "start it, or correct the URL",
                )
            )
    return silent, named


def _agreement(named: Sequence[str], look: str) -> Finding:
    primaries = sorted(set(named))
    if len(primaries) == 1:
        return ok(f"{len(named)} sentinels name {primaries[0]} as the primary")
    return error(
        f"the sentinels name {len(primaries)} primaries: {', '.join(primaries)}",
        "some of them are cut off from the others, and so may be what is connected to them",
        f"look at the network between them: {look}",
    )
