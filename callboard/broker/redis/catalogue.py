"""Every kind of Redis key in a namespace: the one table from which repair, the rights of roles and docs/keys.md are made.

A new kind is a line here. `scripts/chaos_suite/keyspace.py` says on purpose a second time what may be left when
everything is at rest; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from callboard.broker.settings import BrokerSettings

Expiry = Literal["never", "window", "two windows", "minute", "hour", "retention"]

MINUTE_MS, HOUR_MS = 60_000, 3_600_000


@dataclass(frozen=True, slots=True)
class KeyKind:
    """Keys of one kind.

    Attributes:
        pattern: the suffix, with `<...>` where it differs from key to key.
        type: as the command TYPE says it; several with " or " between them.
        holds: what stands in it.
        expiry: how long it may stay; "window" is `dedupe_window`, "retention" is `run_retention`.
        publisher: the commands that a user who only publishes may run on it, with spaces between: those that publishing and
            asking run, and no others. Workers and operators read and write every key.
    """

    pattern: str
    type: str
    holds: str
    expiry: Expiry = "never"
    publisher: str = ""

    @property
    def name(self) -> str:
        """The suffix, or what it begins with: then it ends with ":"."""
        head, colon, _ = self.pattern.partition(":")
        return head + colon

    @property
    def glob(self) -> str:
        """The suffix as a pattern of Redis."""
        return f"{self.name}*" if self.name.endswith(":") else self.name

    def expires_in(self, settings: BrokerSettings) -> int | None:
        """The longest time to live, ms; None: it stays."""
        window = int(settings.dedupe_window * 1000)
        lifetimes = {"window": window, "two windows": 2 * window, "minute": MINUTE_MS, "hour": HOUR_MS}
        lifetimes["retention"] = int(settings.run_retention * 1000)
        return lifetimes.get(self.expiry)


OF_THE_NAMESPACE = (
    KeyKind(
        "clock",
        "string",
        "the last entry id given, `<ms>-<n>`: ids compare across all streams",
        publisher="get set",
    ),
    KeyKind("epoch", "string", "a counter: the source of fencing tokens"),
    KeyKind(
        "config",
        "hash",
        "`shards`, `layout`: fixed for the namespace; where to go on: `sweep:<stream>`, `leaving`, `runs`, `scan <type>`; "
        "`scanned by`: run_id of the server whose cursors `chores` and `resumed` have; `ahead <type>`: the turn that was "
        "the last to read ahead; `runs listed`, `questions listed`: what older versions left is in the lists; "
        "`changing`: the type that is being renamed or removed",
        publisher="hget",
    ),
    KeyKind(
        "topics",
        "hash",
        "topic -> agent types that subscribe, with spaces between",
        publisher="hexists hget hmget hsetnx",
    ),
    KeyKind("prefixes", "hash", "prefix of topics -> agent types that subscribe", publisher="hget hmget"),
    KeyKind("types", "hash", "agent type -> JSON of its settings", publisher="hexists hget"),
    KeyKind(
        "leaving",
        "hash",
        "stream -> agent types that ended their subscription and have entries of it in hand",
        publisher="hexists hget",
    ),
    KeyKind(
        "accepts",
        "hash",
        "message -> highest version that some process ever said it knows",
        publisher="hget hset",
    ),
    KeyKind(
        "chores",
        "hash",
        "what takes more than one call, `<kind> <what>`: leave, adopt, subscribe, settle -> how far it is",
        publisher="hget",
    ),
    KeyKind("grown", "set", "streams that were read from since a beat looked whether to trim them"),
    KeyKind(
        "runs",
        "zset",
        "run -> when its stream got its first entry, server ms; it leaves some time after the stream",
    ),
    KeyKind("workers", "zset", "worker -> when its lease ends, server ms"),
    KeyKind(
        "beats",
        "hash",
        "`last`: when a worker last beat or joined; `patience`: until when no lease that ended is taken for a death; "
        "`since`: when that began; ms",
    ),
    KeyKind(
        "timers",
        "zset",
        "`m|<name>`, a delayed message, or `k|<type>|<key>`, an agent that backs off -> when it is due, server ms",
        publisher="zadd zcount",
    ),
    KeyKind(
        "schedules",
        "hash",
        "`declared <name>` (JSON), `app <name>`, `next <name>` (due time, ms, and digest of its timetable), "
        "`paused <name>`, `sent <name>` (ms), `count <name>`, `declares <app>`",
    ),
    KeyKind("events", "stream", "what the runtime did, about the last 10,000: event, of, what, more"),
    KeyKind(
        "control",
        "stream",
        "what workers are told at once: `do` is cancel, pause or make way",
        publisher="xadd",
    ),
    KeyKind(
        "paused",
        "hash",
        "`type <type>`, `key <type>/<key>` or `topic <topic>` -> when (ms) and by whom",
    ),
    KeyKind(
        "resumed",
        "hash",
        "agent type -> where the look at its shelved agents goes on, after something was resumed",
    ),
    KeyKind(
        "cancelled",
        "zset",
        "id of a cancelled request -> until when it matters, ms",
        "window",
        publisher="pexpire pttl zadd",
    ),
    KeyKind("inputs", "zset", "question (`input:<id>`) that is open -> when it was asked, server ms"),
    KeyKind("inputs:<key>", "zset", "the same of agents with one key, as all of a conversation have"),
    KeyKind("asking:<run>", "zset", "the same of a run, and of a part of one: `<run>@<conversation>`"),
    KeyKind("urgent", "hash", "`<type> <key>` -> reference of the reset that goes before everything else"),
    KeyKind(
        "blobs", "zset", "blob -> when to look whether a place still needs it, server ms", publisher="zadd"
    ),
)

OF_STREAMS = (
    KeyKind(
        "topic:<topic>",
        "stream",
        "messages of a topic: id, type, key, body; from and head where it has them; at (ms) where the entry's id is no time",
        publisher="xadd xgroup|create xinfo|groups xlen",
    ),
    KeyKind(
        "inbox:<type>",
        "stream",
        "direct messages to agents of a type, with the same fields",
        publisher="xadd xinfo|groups xlen",
    ),
    KeyKind("urgent:<type>", "stream", "resets; no group reads it"),
    KeyKind("dead:<type>", "stream", "dead letters: the entry, and why"),
    KeyKind(
        "nested:<type>:<message>",
        "stream",
        "requests that came to a handler while it waited; goes with its commit",
        "window",
    ),
    KeyKind(
        "reply:<process>",
        "stream",
        "replies to one process",
        "minute",
        publisher="del expire xadd xread xtrim",
    ),
)

OF_A_TYPE = (
    KeyKind("streams:<type>", "set", "streams that the type reads, as suffixes", publisher="sadd sismember"),
    KeyKind(
        "fresh:<type>",
        "zset",
        "those of them that may hold unread entries -> a time (ms) that no unread entry is before",
        publisher="zadd",
    ),
    KeyKind("cursor:<type>", "hash", "stream -> last id that its group was given"),
    KeyKind("bell:<type>", "list", "tokens: one wakes one idle worker", publisher="llen lpush"),
    KeyKind(
        "busy:<type>", "hash", "agent key -> worker that runs it, or empty while parked entries wait for one"
    ),
    KeyKind("wait:<type>:<key>", "list", "references parked behind an agent, in order"),
    KeyKind("parked:<type>", "hash", "agent key -> how many entries are parked", publisher="hget"),
    KeyKind("ready:<type>", "list", "agents whose parked entries any worker may take"),
    KeyKind("suspects:<type>", "list", "agents whose first entry may have ended workers: tried alone"),
    KeyKind(
        "shelved:<type>", "hash", "agent key -> queue that it belongs in, while something of it is paused"
    ),
    KeyKind(
        "suspended:<type>",
        "hash",
        "agent key -> message whose handler waits for an answer; the agent is busy then, with no worker",
    ),
    KeyKind(
        "newer:<type>",
        "zset",
        "`<message> <version>|<key>`: agents whose first entry waits for a worker that knows its message, score 0",
    ),
    KeyKind("early:<type>", "zset", "entries read ahead of another stream: `<sortable id>|<reference>`"),
    KeyKind(
        "tries:<type>",
        "hash",
        "reference -> attempts, first attempt (ms), deaths of workers that held it among others, reason",
    ),
    KeyKind("stats:<type>", "hash", "counters: done, retried, dead, released, reaped"),
    KeyKind("rate:<type>", "string", "what is left of the type's rate limit: tokens, ms", "hour"),
)

OF_ONE_THING = (
    KeyKind(
        "state:<type>:<key>",
        "hash",
        "an agent's state: v (version), d (data), w (worker that wrote it), l (its logs: field, items, field, ...)",
    ),
    KeyKind("log:<type>:<key>:<field>", "list", "items of a log of an agent's state, as JSON, oldest first"),
    KeyKind(
        "run:<id>",
        "stream",
        "what happens in a run, as entries 0-1, 0-2, ...: at, type, v, body; with `tag` it is a draft, see runs.lua",
        "retention",
    ),
    KeyKind(
        "worker:<worker>",
        "hash",
        "host, pid, types, started, accepts, held, running, runs (running by agent type), call (its last turn), "
        "brought (its last turn that waited behind a bell), heard (its last call whose answer it got), "
        "blocked (what last blocked its event loop); without it a worker is fenced",
    ),
    KeyKind("own:<worker>", "hash", "`<type> <reference>` -> agent key: what the worker holds"),
    KeyKind(
        "timer:<name>", "hash", "a delayed message: its stream, and the fields of its entry", publisher="hset"
    ),
    KeyKind(
        "blob:<name>",
        "hash",
        "`body`: a large body; every other field is a place that needs it",
        publisher="hset",
    ),
    KeyKind(
        "dedupe",
        "zset",
        "idempotency id -> until when it is remembered, server ms",
        "two windows",
        publisher="pexpire pttl zadd zrangebyscore zrem zscore",
    ),
    KeyKind(
        "once:<type>:<message>",
        "hash",
        "`.<name>`: what ctx.once recorded; `><id>`: sent before the commit; `!<entry>`: how a nested request ended; "
        "`?<name>`: a question of ctx.ask. Of a message that asked something it stays until the message ends",
        "window",
    ),
    KeyKind(
        "input:<id>",
        "hash",
        "a question of ctx.ask: status, type, key, message, run, name, question, schema, choices, to, details, default, "
        "asked, expires; answer, by, at. Until its message ends it stays",
        "window",
    ),
    KeyKind(
        "call:<id>",
        "hash",
        "a request: the processes that wait (`to`), and the reply once there is one",
        "window",
        publisher="hmget hset pexpire pttl",
    ),
    KeyKind(
        "sent:<producer>",
        "string",
        "number of a publisher's last batch, and its answer",
        "hour",
        publisher="get set",
    ),
    KeyKind(
        "store:<name>",
        "string or hash",
        "what an application keeps, each for its own time; `usage:<scope>`, `held:<scope>`, `window:<ms>:<scope>` and "
        "`entered:<ms>:<scope>`: what models used",
    ),
)

CATALOGUE = (*OF_THE_NAMESPACE, *OF_STREAMS, *OF_A_TYPE, *OF_ONE_THING)
_BY_NAME = {kind.name: kind for kind in CATALOGUE}


def kind_of(suffix: str) -> KeyKind | None:
    """The kind of a Redis key, by the part of its name after the namespace's prefix; None: it is not Callboard's."""
    head, colon, _ = suffix.partition(":")
    return _BY_NAME.get(head + colon)
