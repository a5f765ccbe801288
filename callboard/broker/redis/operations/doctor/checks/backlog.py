"""How far each agent type is behind, and topics without readers."""

from __future__ import annotations

from collections.abc import Sequence

from callboard.broker.redis.operations.doctor.finding import Finding, info, ok, some, warning
from callboard.broker.redis.operations.doctor.subject import Subject
from callboard.broker.redis.operations.inspect import AgentTypeView, Overview, TopicView

ORDER = 80

LONG = 10_000  # messages


async def examine(subject: Subject) -> Sequence[Finding]:
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
    return warning(
        shown,
        "they are handled later than they could be, and fill the server's memory",
        f"more processes: callboard up module:app --processes {one.type}=4; or see what fails: callboard dead list",
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
                f"topics without a subscriber are full: {_shown(full)}",
                f"only the newest {limit} messages are kept, older ones are gone",
                "subscribe an agent type, or stop publishing to them",
            )
        )
    if rest := [topic for topic in unread if topic not in full]:
        findings.append(
            info(
                f"topics without a subscriber: {_shown(rest)}",
                "the first subscriber gets what is in them from the first entry",
            )
        )
    return findings


def _shown(topics: Sequence[TopicView]) -> str:
    return some(f"{topic.type} ({topic.length})" for topic in topics)
