"""The messages that a crash of the server would cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from callboard.broker.redis.client.file_renewal import is_as_it_was
from callboard.broker.redis.operations.doctor.finding import Finding, error, info, ok, warning
from callboard.broker.redis.operations.doctor.subject import Subject

ORDER = 20

AOF_ON = "redis-cli CONFIG SET appendonly yes, and `appendonly yes` in its file"


async def examine(subject: Subject) -> Sequence[Finding]:
    """Append-only file, its syncing, snapshots, and how the last writes of them went."""
    if subject.is_in_memory:
        return []
    facts = await subject.info()
    findings = [await _file(subject, facts), *_last_writes(facts), *_since_start(facts)]
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
        return _synced(sync)
    save = await subject.setting("save")
    if save:
        return error(
            f"no append-only file, only snapshots (save {save})",
            "a crash loses everything since the last snapshot, acknowledged messages included",
            AOF_ON,
        )
    return error(
        "nothing is written to disk", "a crash or restart loses every message and every state", AOF_ON
    )


def _since_start(facts: Mapping[str, str]) -> Sequence[Finding]:
    if not is_as_it_was(facts):
        return []
    return [
        info(
            "the append-only file was not written anew since the server began",
            "after a crash half of a commit may stand at its end, which Redis would carry out with its next start",
            "redis-cli BGREWRITEAOF; workers do so by themselves, unless their user may not or CALLBOARD_RENEW_FILE=0",
        )
    ]


def _synced(sync: str | None) -> Finding:
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
            "redis-cli CONFIG SET appendfsync everysec",
        )
    return info(
        "append-only file; how often it is synced is not known", do="redis-cli CONFIG GET appendfsync"
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
