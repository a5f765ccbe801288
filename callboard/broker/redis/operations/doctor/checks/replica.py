"""Whether there is a replica that keeps up, where `durability="replica"` asks for one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from callboard.broker.redis.operations.doctor.finding import Finding, error, info, ok, warning
from callboard.broker.redis.operations.doctor.subject import Subject

ORDER = 60

BEHIND = 10_000_000  # bytes
SILENT = 10  # seconds


async def examine(subject: Subject) -> Sequence[Finding]:
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
    return [_wanted(subject, online), *(finding for one in replicas if (finding := _lagging(one, facts)))]


def _wanted(subject: Subject, online: Sequence[str]) -> Finding:
    shown = f"{len(online)} replicas online"
    if online:
        return ok(shown)
    if subject.settings.durability == "replica":
        return error(
            'durability="replica" and no replica is online',
            "every publish waits for one and fails",
            'start a replica (redis-server --replicaof <host> <port>), or set durability to "server"',
        )
    return info("no replica", "when the machine is lost, so is what is in the server")


def _lagging(replica: str, facts: Mapping[str, str]) -> Finding | None:
    behind = int(facts.get("master_repl_offset", 0)) - int(_value(replica, "offset") or 0)
    silent = int(_value(replica, "lag") or 0)
    if behind < BEHIND and silent < SILENT:
        return None
    return warning(
        f"the replica {_value(replica, 'ip')}:{_value(replica, 'port')} is {behind} bytes and {silent} s behind",
        "after a failover what it had not got is lost",
        "look at its load and network: redis-cli INFO replication",
    )


def _value(replica: str, name: str) -> str:
    """A field of `ip=...,port=...,state=online,...`."""
    found = re.search(rf"(?:^|,){name}=([^,]*)", replica)
    return found[1] if found else ""
