"""Checks of the work: the namespace's books, workers, what waits, timers, schedules, pauses, dead letters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from callboard.broker.errors import LayoutError
from callboard.broker.redis.client.schedules import ScheduleStore
from callboard.foundation.texts import shell_line

from .agent_types import TypeRecord, advice_on, type_records
from .doctor import Finding, Level, Subject, check, error, info, ok, some, warning
from .inspect import number, pages
from .repair import KINDS, Fault
from .retyping import change_under_way
from .views import AgentTypeView, Overview, Pause, TopicView


@check("layout", order=5)
async def examine_layout(subject: Subject) -> Sequence[Finding]:
    """Asks a function that writes nothing: each looks at the layout first."""
    try:
        await subject.transport.admin.run("measure", ("",))
    except LayoutError as other:
        return [
            error(
                f"the namespace has layout {other.found}, and this version of Callboard knows layout {other.known} only",
                "no process of this version works with it; nothing in it was changed",
                "finish its work with the version that made it and use another namespace, or run that version",
            )
        ]
    return [ok("the namespace has the layout of this version")]


NAMES: Final = ("topics", "types")
COUNTERS: Final = ("stats", "parked")  # of each agent type
PULSE: Final = ("pid", "started", "held", "running")  # what a worker says of itself in numbers


@check("by_hand", order=85)
async def examine_by_hand(subject: Subject) -> Sequence[Finding]:
    """Names that are no text and counters that are no numbers."""
    damaged = [suffix for suffix in NAMES if not all(map(_is_text, await _flat(subject, suffix)))]
    for name in (await _flat(subject, "types"))[::2]:
        for kind in COUNTERS:
            suffix = f"{kind}:{name.decode(errors='replace')}"
            if not all(number(value) is not None for value in (await _flat(subject, suffix))[1::2]):
                damaged.append(suffix)
    for worker in await subject.of("ZRANGE", "workers", 0, -1):
        suffix = f"worker:{worker.decode(errors='replace')}"
        if not all(
            value is None or number(value) is not None for value in await subject.of("HMGET", suffix, *PULSE)
        ):
            damaged.append(suffix)
    found = [
        error(
            f"`{suffix}` holds what can't be read",
            "the key was changed by hand: what is in it is left out, and may belong to a type that gets no messages",
            "HDEL what is not yours; docs/keys.md says what the key holds",
        )
        for suffix in damaged
    ]
    return found or [ok("names and counters can be read")]


async def _flat(subject: Subject, suffix: str) -> Sequence[bytes]:
    return await pages(subject.transport, "HSCAN", suffix)


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


@check("consistency", order=120)
async def examine_consistency(subject: Subject) -> Sequence[Finding]:
    """One finding for each kind of fault."""
    if await change_under_way(subject.transport):
        return []  # the check of types tells of it, and nothing can be looked at meanwhile
    by_kind: dict[tuple[str, bool], list[Fault]] = {}
    for fault in await subject.faults():
        by_kind.setdefault((fault.kind, fault.status == "stays"), []).append(fault)
    return [_finding_of_faults(faults) for faults in by_kind.values()] or [
        ok("the books of the namespace agree")
    ]


def _finding_of_faults(faults: Sequence[Fault]) -> Finding:
    first = faults[0]
    what, why, serious = KINDS[first.kind]
    level = Level.ERROR if serious else Level.INFO if first.kind in ("ready", "unknown") else Level.WARNING
    shown = some(
        (f"{' '.join(name for name in fault.names if name)} ({fault.detail})" for fault in faults), 3
    )
    do = (
        "by hand: what is in brackets says why and how"
        if first.status == "stays"
        else "callboard repair --yes"
    )
    return Finding(level=level, what=f"{len(faults)} {what}: {shown}", why=why, do=do)


LATELY = 600_000  # ms for which a blocked event loop is a finding


@check("workers", order=70)
async def examine_workers(subject: Subject) -> Sequence[Finding]:
    """Living workers, leases that ended, blocked event loops, types without workers."""
    view = await subject.overview()
    if not view.types:
        return [
            info(
                f"nothing is declared in the namespace {view.namespace!r}",
                "this is normal before the first start of an app",
                "check --namespace and --url, or start the app: callboard up module:app",
            )
        ]
    return [_living(view), *_expired(view), *_blocked(view), *_missing(view, subject.declared)]


def _living(view: Overview) -> Finding:
    living = [worker for worker in view.workers if worker.lease_ms_left >= 0]
    held = sum(worker.held for worker in living)
    if living:
        return ok(f"{len(living)} workers are alive and hold {held} entries")
    return info("no worker is alive", "messages wait until one starts", "callboard up module:app")


def _expired(view: Overview) -> Sequence[Finding]:
    expired = [worker for worker in view.workers if worker.lease_ms_left < 0]
    if not expired:
        return []
    living = len(view.workers) - len(expired)
    names = some(f"{worker.name} ({-worker.lease_ms_left / 1000:.1f} s ago)" for worker in expired)
    why = f"they died, hang, or lost the server; {sum(worker.held for worker in expired)} entries are still theirs"
    if living:
        return [
            info(
                f"leases that ended: {names}",
                why,
                "nothing: another worker takes over with its next heartbeat",
            )
        ]
    return [warning(f"leases that ended: {names}", why, "start a worker, or: callboard repair --yes")]


def _blocked(view: Overview) -> Sequence[Finding]:
    lately = [
        (worker.name, worker.blocked)
        for worker in view.workers
        if worker.blocked is not None and view.at - worker.blocked.at < LATELY
    ]
    if not lately:
        return []
    shown = some(
        f"{name} for {one.seconds:.1f} s, {(view.at - one.at) / 1000:.0f} s ago ({one.what})"
        for name, one in lately
    )
    return [
        warning(
            f"handlers block the event loop: {shown}",
            "nothing else runs in such a worker meanwhile, whatever its concurrency is",
            "have what blocks run in a thread, with `await asyncio.to_thread(...)`, or start more processes",
        )
    ]


def _missing(view: Overview, declared: frozenset[str] | None) -> Sequence[Finding]:
    """Types that a worker has to be started for; what the app in hand lacks has a check of its own."""
    return [
        error(
            f"{agent_type.type}: {_left_of(agent_type)} and no worker runs it",
            "they wait for ever",
            shell_line("callboard", "worker", "module:app", "--type", agent_type.type),
        )
        for agent_type in view.types
        if not agent_type.workers
        and (agent_type.waiting != 0 or agent_type.suspended)
        and (declared is None or agent_type.type in declared)
    ]


def _left_of(one: AgentTypeView | TypeRecord) -> str:
    if one.waiting == 0:
        return f"{one.suspended} agents wait for an answer"
    return f"{'an unknown number of' if one.waiting is None else one.waiting} messages wait"


@check("types", order=72)
async def examine_types(subject: Subject) -> Sequence[Finding]:
    """Types that are half renamed, and those that the app in hand lacks and no worker runs."""
    if again := await change_under_way(subject.transport):
        return [
            error(
                "an agent type is being renamed or removed, or was when the command for it was interrupted",
                "until that has ended no process can declare or run it, and repair waits",
                f"wait for its end, or go on with it: {again}",
            )
        ]
    if subject.declared is None:
        return [ok("which types are left behind is known with an app only: callboard doctor module:app")]
    view = await subject.overview()
    left = [one for one in await type_records(subject.transport, subject.declared, view) if one.is_left]
    return [_finding_of_left(one, view) for one in left] or [
        ok("every agent type is declared by the app, or a worker runs it")
    ]


def _finding_of_left(one: TypeRecord, view: Overview) -> Finding:
    since = f"since {_shown(one.joined)}" if one.joined else "that is remembered"
    waits = bool(one.waiting != 0 or one.suspended)
    return Finding(
        level=Level.ERROR if waits else Level.WARNING if one.subscriptions else Level.INFO,
        what=f"{one.type}: the app does not declare it, and no worker has joined with it {since}"
        + (f"; {_left_of(one)}" if waits else ""),
        why="its topics are kept for it and its messages wait for ever, unless another app of the namespace declares it",
        do=advice_on(one, view.namespace),
    )


LONG = 10_000  # messages


@check("backlog", order=80)
async def examine_backlog(subject: Subject) -> Sequence[Finding]:
    """Lag per topic and group, what is parked, topics that no agent type reads."""
    view = await subject.overview()
    limit = subject.settings.max_unclaimed
    return [*_types(view), *_groups(view), *_unread_topics(view, limit)]


def _types(view: Overview) -> Sequence[Finding]:
    return [_backlog(one) for one in view.types if one.waiting or one.backing_off]


def _backlog(one: AgentTypeView) -> Finding:
    waiting = "an unknown number of" if one.waiting is None else one.waiting
    shown = f"{one.type}: {waiting} messages wait ({one.parked} parked), {one.running} run, {one.backing_off} back off"
    if one.waiting is not None and one.waiting < LONG:
        return ok(shown)
    more = shell_line("callboard", "up", "module:app", "--processes", f"{one.type}=4")
    return warning(
        shown,
        "they are handled later than they could be, and fill the server's memory",
        f"more processes: {more}; or see what fails: callboard dead list",
    )


def _groups(view: Overview) -> Sequence[Finding]:
    behind = [
        info(
            f"topic {topic.type}, group {group.type}: {_count(group.unread)} unread, {group.pending} pending, "
            f"at {group.position}"
        )
        for topic in view.topics
        for group in topic.groups
        if group.unread is None or group.unread >= LONG or group.pending >= LONG
    ]
    return behind or [ok(f"{len(view.topics)} topics, no group is {LONG} messages behind")]


def _count(number: int | None) -> str:
    return "an unknown number" if number is None else str(number)


def _unread_topics(view: Overview, limit: int) -> Sequence[Finding]:
    unread = [topic for topic in view.topics if not topic.subscribers and topic.length]
    full = [topic for topic in unread if topic.length >= limit]
    findings = []
    if full:
        findings.append(
            warning(
                f"topics without a subscriber are full: {_shown_topic(full)}",
                f"only the newest {limit} messages are kept, older ones are gone",
                "subscribe an agent type, or stop publishing to them",
            )
        )
    if rest := [topic for topic in unread if topic not in full]:
        findings.append(
            info(
                f"topics without a subscriber: {_shown_topic(rest)}",
                "the first subscriber gets what is in them from the first entry",
            )
        )
    return findings


def _shown_topic(topics: Sequence[TopicView]) -> str:
    return some(f"{topic.type} ({topic.length})" for topic in topics)


OLD = 10_000  # ms


@check("reading", order=110)
async def examine_reading(subject: Subject) -> Sequence[Finding]:
    """Agent types whose oldest early entry is older than every cursor and was not taken for a while."""
    view = await subject.overview()
    if view.paused:
        return [ok("something is paused: what was read ahead may wait for it")]
    stuck = []
    for one in view.types:
        first = await subject.of("ZRANGE", f"early:{one.type}", 0, 0)
        if not first or not one.workers:
            continue
        entry = first[0].decode(errors="replace").rpartition(" ")[2]
        cursors = await subject.of("HVALS", f"cursor:{one.type}")
        behind_all = all(_order(entry) <= _order(cursor.decode()) for cursor in cursors)
        if behind_all and view.at - _order(entry)[0] > OLD:
            stuck.append(f"{one.type} ({entry})")
    if not stuck:
        return [ok("nothing that was read ahead is overdue")]
    return [
        warning(
            f"read ahead and not taken for more than {OLD // 1000} s: {some(stuck)}",
            "workers are alive and busy, or they hang; the messages behind wait as well",
            "look at `callboard status`: a worker that holds everything and runs nothing has to be restarted",
        )
    ]


def _order(entry: str) -> tuple[int, ...]:
    parts = entry.split("-")
    return tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else (0,)


LATE_TIMER = 5000  # ms


@check("timers", order=100)
async def examine_timers(subject: Subject) -> Sequence[Finding]:
    """Timers that are due and were not sent."""
    view = await subject.overview()
    late = int(await subject.of("ZCOUNT", "timers", "-inf", view.at - LATE_TIMER))
    if not late:
        return [ok(f"{view.timers} timers, none is late")]
    shown = f"{late} timers are more than {LATE_TIMER // 1000} s late"
    why = "delayed messages and second attempts are not sent"
    if view.workers:
        return [error(shown, why, "a worker is alive and should send them: look at its log, then restart it")]
    return [warning(shown, why, "start any worker of the namespace: it sends them at once")]


LATE_SCHEDULE: Final = 120_000  # ms


@check("schedules", order=102)
async def examine_schedules(subject: Subject) -> Sequence[Finding]:
    """Schedules that are due and not paused, and were not sent."""
    schedules = await ScheduleStore(subject.transport.admin).all()
    now = (await subject.overview()).at
    late = [one.name for one in schedules if one.paused is None and now - one.due > LATE_SCHEDULE]
    if not late:
        return [ok(f"{len(schedules)} schedules, none is late")]
    return [
        warning(
            f"schedules that are more than {LATE_SCHEDULE // 60_000} min late: {', '.join(late)}",
            "what they send is not sent",
            "start a worker of their app, or look at its log; `callboard schedules remove` takes away what no app declares",
        )
    ]


@check("pauses", order=75)
async def examine_pauses(subject: Subject) -> Sequence[Finding]:
    """One finding for each pause."""
    view = await subject.overview()
    return [_finding_of_pause(pause, view.namespace) for pause in view.paused] or [ok("nothing is paused")]


def _finding_of_pause(pause: Pause, namespace: str) -> Finding:
    since = f" since {_shown(pause.since)}" if pause.since is not None else ""
    words = ("--topic", pause.name) if pause.kind == "topic" else (pause.name,)
    return info(
        f"{pause.kind} {pause.name} is paused{since}" + (f" by {pause.by}" if pause.by else ""),
        "its messages wait",
        shell_line("callboard", "resume", "--namespace", namespace, *words),
    )


def _shown(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")


@check("outages", order=105)
async def examine_outages(subject: Subject) -> Sequence[Finding]:
    """Messages that wait for an outage to end."""
    view = await subject.overview()
    if not view.outages:
        return [ok("no message waits for an outage to end")]
    return [
        warning(
            f"{one.type}: {one.messages} have been waiting for an outage to end for {(view.at - one.since) / 1000:.0f} s: "
            f"{one.error}",
            "what comes behind them waits too, and what waits longer than retry_outage becomes a dead letter, unless "
            "it waits for a limit that will have room",
            "end it as its error says; then they go on by themselves. `callboard limits` shows limits of models",
        )
        for one in view.outages
    ]


@check("deadletters", order=90)
async def examine_deadletters(subject: Subject) -> Sequence[Finding]:
    """How many there are, by agent type."""
    view = await subject.overview()
    found = [
        warning(
            f"{one.type}: {one.dead} dead letters",
            "these messages were not handled, and stay until they are replayed or discarded",
            f"{_letters(one.type, view.namespace)}; then dead replay, or dead discard",
        )
        for one in view.types
        if one.dead
    ]
    return found or [ok("no dead letters")]


def _letters(agent_type: str, namespace: str) -> str:
    return shell_line("callboard", "dead", "list", agent_type, "--namespace", namespace)
