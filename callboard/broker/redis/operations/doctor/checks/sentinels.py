"""Whether the sentinels of the URL can be asked, and agree on who is the primary."""

from __future__ import annotations

from collections.abc import Sequence

from callboard.broker.errors import BrokerError, ServerUnavailableError
from callboard.broker.redis.client.endpoint import Endpoint, Watched
from callboard.broker.redis.client.primary_watch import ask
from callboard.broker.redis.client.sentinels import Search, as_server
from callboard.broker.redis.operations.doctor.finding import Finding, error, info, ok, warning
from callboard.broker.redis.operations.doctor.subject import Subject

ORDER = 61


async def examine(subject: Subject) -> Sequence[Finding]:
    """Each sentinel by itself; and whether a primary that was replaced would go on taking writes."""
    endpoint = subject.transport.endpoint
    if subject.is_in_memory:
        return []
    if endpoint.watched is None:
        return [ok("the URL names the server itself")]
    silent, named = await _ask_all(endpoint, endpoint.watched, subject.settings.connect_timeout)
    findings = [_agreement(named), *silent]
    if await subject.setting("min-replicas-to-write") == "0":
        findings.append(
            info(
                "the primary takes writes without a replica (min-replicas-to-write 0)",
                "one that is cut off takes writes that will be lost, until its clients have left it",
                "with two replicas or more: redis-cli CONFIG SET min-replicas-to-write 1, on all of them",
            )
        )
    return findings


async def _ask_all(endpoint: Endpoint, watched: Watched, timeout: float) -> tuple[list[Finding], list[str]]:
    """What is wrong with some, and the primaries that the others name."""
    silent, named = [], []
    for address in watched.sentinels:
        search, sentinel = Search(endpoint, watched, timeout), as_server(endpoint, watched, address)
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


def _agreement(named: Sequence[str]) -> Finding:
    primaries = sorted(set(named))
    if len(primaries) == 1:
        return ok(f"{len(named)} sentinels name {primaries[0]} as the primary")
    return error(
        f"the sentinels name {len(primaries)} primaries: {', '.join(primaries)}",
        "some of them are cut off from the others, and so may be what is connected to them",
        "look at the network between them: redis-cli -p 26379 SENTINEL MASTERS",
    )
