"""Views of a namespace, for inspect.py and the command line: plain values, one moment each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTypeView:
    """One agent type.

    Attributes:
        type: its name.
        waiting: messages that are published to it, due and not handled, without those that run: not read yet, parked
            behind a busy agent, read ahead, or held by a worker that has not begun with them. None: unknown.
        running: messages that handlers of living workers run, as of their last heartbeats.
        held: agents that a worker holds, running or next in line.
        parked: entries behind a busy key (part of `waiting`).
        backing_off: agents that wait for their next attempt.
        suspended: agents whose handler waits for an answer (`ctx.ask`).
        done: messages handled since the namespace was made.
        retried: attempts that failed and were followed by another.
        dead: dead letters that are there now.
        died: dead letters ever written.
        released: entries that a worker gave back unfinished.
        reaped: workers that died while they held something.
        workers: workers alive that run this type.
        streams: suffixes of the streams it reads, such as `topic:visits`.
        oldest: when the message that waits longest was published, or was due, server ms; None: nothing waits, or it
            was not asked for.
        groups: how far it is in each stream, also in those that it left and has something in hand of. A glance has those
            that may hold something unread.
        counted: whether `waiting`, `parked`, `held`, `backing_off` and `oldest` are of all that there is; False: a glance
            saw a part of it, so at least so much waits, and longer.
    """

    type: str
    waiting: int | None
    running: int
    held: int
    parked: int
    backing_off: int
    suspended: int
    done: int
    retried: int
    dead: int
    died: int
    released: int
    reaped: int
    workers: int
    streams: tuple[str, ...]
    oldest: int | None = None
    groups: Mapping[str, GroupView] = field(default_factory=dict)
    counted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedView:
    """A handler that keeps the event loop of its worker from running, or did: nothing else runs in the process meanwhile.

    Attributes:
        at: when a heartbeat saw it last, server ms.
        seconds: for how long it had blocked the loop then.
        what: the agent, the message, and the line of code.
    """

    at: int
    seconds: float
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """One worker that is alive, or was until its lease ends.

    Attributes:
        name: `<host>:<pid>:<token>:<number>`: the token is random, one for each process; the number is its fencing token.
        host: machine.
        pid: process; None: unknown, as below, where a person has written something else there.
        types: agent types that it runs.
        lease_ms_left: ms until the others take over what it holds; below 0 it is about to be reaped.
        held: entries that it holds.
        running: handlers that ran at its last heartbeat; None: unknown.
        started: when it joined, server ms; None: unknown.
        blocked: what last blocked its event loop; None: nothing did for as long as a beat takes.
        runs: the handlers that ran then, by agent type.
    """

    name: str
    host: str
    pid: int | None
    types: tuple[str, ...]
    lease_ms_left: int
    held: int
    running: int | None
    started: int | None
    blocked: BlockedView | None = None
    runs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """How far one agent type is in one stream.

    Attributes:
        type: the agent type.
        unread: entries that it was not given yet; None: unknown.
        pending: entries that it was given and has not finished.
        position: id of the last entry that it was given.
        first_unread: id of the first of the unread ones, "" when there is none.
        first_pending: id of the first of the pending ones, "" when there is none.
    """

    type: str
    unread: int | None
    pending: int
    position: str
    first_unread: str = ""
    first_pending: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """One topic.

    Attributes:
        type: topic type.
        length: entries in the stream, handled ones that are kept included.
        last_id: id of the newest entry ever, "" when there was none.
        subscribers: agent types that subscribe.
        groups: how far each of them is.
    """

    type: str
    length: int
    last_id: str
    subscribers: tuple[str, ...]
    groups: tuple[GroupView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over the agent types; see AgentTypeView. `waiting` is None when it is not known for one of them."""

    waiting: int | None
    running: int
    held: int
    parked: int
    backing_off: int
    suspended: int
    done: int
    retried: int
    dead: int
    died: int
    released: int
    reaped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TypePulse:
    """One agent type, as a `Pulse` sees it; see AgentTypeView for the fields."""

    type: str
    waiting: int | None
    running: int
    asking: int
    done: int
    dead: int
    died: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPulse:
    """One worker, as a `Pulse` sees it; see WorkerView.

    Attributes:
        name: its name.
        lease_ms_left: ms until the others take over what it holds.
        runs: the handlers that ran at its last heartbeat, by agent type.
        holds: the entries that it holds, by agent type.
    """

    name: str
    lease_ms_left: int
    runs: Mapping[str, int] = field(default_factory=dict)
    holds: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PulseView:
    """One look of a `Pulse`.

    Attributes:
        at: server ms.
        types: the agent types that it looks at.
        workers: all workers.
    """

    at: int
    types: tuple[TypePulse, ...]
    workers: tuple[WorkerPulse, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Something that is paused.

    Attributes:
        kind: "type", "key" or "topic".
        name: agent type, `type/key` of an agent, or topic type.
        since: when it was paused, server ms; None: unknown.
        by: the operator who paused it, "" when none was named.
    """

    kind: str
    name: str
    since: int | None
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """Messages of one agent type that wait for something outside to be there again.

    Attributes:
        type: agent type.
        messages: how many wait, of the tried ones that were looked at (at most some thousand).
        since: when the first of them was tried first, server ms.
        error: how it ended.
    """

    type: str
    messages: int
    since: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """How much a glance does not show of what there is."""

    types: int = 0
    workers: int = 0
    topics: int = 0
    streams: int = 0
    pauses: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """How a namespace stands.

    Attributes:
        namespace: its name.
        at: server ms.
        types: agent types, by name.
        workers: workers, by name.
        topics: topics, by type.
        timers: delayed messages, and agents that back off.
        delayed: delayed messages; none of them is `waiting` before it is due.
        next_due: when the first of them is due, server ms; None: there is none.
        totals: sums over the types.
        paused: what is paused, the longest first.
        outages: agent types whose messages wait for an outage to end, by name.
        left_out: what there is besides; of `overview` nothing.
    """

    namespace: str
    at: int
    types: tuple[AgentTypeView, ...]
    workers: tuple[WorkerView, ...]
    topics: tuple[TopicView, ...]
    timers: int
    next_due: int | None
    totals: Totals
    paused: tuple[Pause, ...] = ()
    outages: tuple[Outage, ...] = ()
    delayed: int = 0
    left_out: LeftOut = field(default_factory=LeftOut)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldEntry:
    """An entry that a worker holds. `entry` is its id in `stream`, such as `topic:visits`."""

    type: str
    key: str
    stream: str
    entry: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedEntry:
    """An entry that waits behind the key of its agent.

    Attributes:
        stream: suffix of its stream.
        entry: its id there.
        attempts: attempts that failed so far.
        deaths: deaths of workers that held it among others; it is not known which of them ended the worker.
        reason: how the last of them ended, "" when there was none.
    """

    stream: str
    entry: str
    attempts: int
    deaths: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The entries that wait for one agent.

    Attributes:
        type: agent type.
        key: agent key.
        holder: worker that runs the agent now, or None.
        resumes: when its next attempt is due, server ms; None: it is not backing off.
        entries: parked entries, in the order in which they will be handled.
    """

    type: str
    key: str
    holder: str | None
    resumes: int | None
    entries: tuple[ParkedEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """Something that is due later.

    Attributes:
        due: server ms.
        stream: stream that the message goes to; None when an agent backs off.
        message_type: wire name of the message, "" for an agent.
        message_id: id of the message, "" for an agent.
        agent: `type/key` of the agent that backs off, or key of the message's agent.
    """

    due: int
    stream: str | None
    message_type: str
    message_id: str
    agent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyView:
    """One agent of a type, for a list of those for whom most waits.

    Attributes:
        type: agent type.
        key: agent key.
        waiting: messages that wait for it, as in `AgentTypeView`.
        running: whether a handler of it runs, as of its worker's last heartbeat.
        oldest: when the message that waits longest was published, or was due, server ms; None: nothing waits.
        state_bytes: size of its stored `State` as JSON with its logs, bytes; 0: none is stored.
    """

    type: str
    key: str
    waiting: int
    running: bool
    oldest: int | None
    state_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageView:
    """A message that a worker holds.

    Attributes:
        stream: suffix of its stream.
        entry: its id there.
        id: of the message, "" when its entry is gone.
        type: wire name of the message, "" when its entry is gone.
        since: when its worker was given it, server ms; None: not known.
    """

    stream: str
    entry: str
    id: str
    type: str
    since: int | None


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question of a handler that waits.

    Attributes:
        text: what it asks.
        is_for_people: whether a person may answer; else it waits for the end of a run.
    """

    text: str
    is_for_people: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentView:
    """All that is known of one agent.

    Attributes:
        type: agent type.
        key: agent key.
        at: server ms.
        holder: worker that holds it, or None.
        running: the message that its handler runs, or that its worker is to begin with; None: no worker holds one.
        begun: whether its handler ran at its worker's last heartbeat.
        waiting: messages that wait for it, as in `AgentTypeView`.
        oldest: when the message that waits longest was published, or was due, server ms; None: nothing waits.
        resumes: when its next attempt is due, server ms; None: it is not backing off.
        suspended: whether the handler of its first message has asked something, and waits for the answer.
        questions: what it has asked and nothing has answered yet, by the id of the question.
        attempts: attempts at its first message that failed.
        deaths: deaths of workers that held its first message among others.
        reason: how the last of these ended, "" when there was none.
        delayed: messages for it that are due later, the nearest first: at most 20 of the next 10,000 of the namespace.
        letters: its dead letters, the newest first, as `<type>/<id>`: at most 20, of the type's newest 10,000.
        paused: what keeps it from being started: its type, itself or a topic that it reads.
        reentrant: whether it can be asked while it waits for a reply.
        state_version: commits that changed its state, 0: none is stored.
        state_bytes: size of its state as JSON, without its logs, bytes.
        logs: the logs of its state by field, as items and bytes of their JSON, which are estimated.
        state_writer: worker that wrote its state last, "" when none is stored.
        state: its state as JSON without its logs, when it was asked for and is stored; else None.
    """

    type: str
    key: str
    at: int
    holder: str | None
    running: MessageView | None
    begun: bool
    waiting: int
    oldest: int | None
    resumes: int | None
    suspended: bool
    questions: Mapping[str, OpenQuestion]
    attempts: int
    deaths: int
    reason: str
    delayed: tuple[Timer, ...]
    letters: tuple[str, ...]
    paused: tuple[Pause, ...]
    reentrant: bool
    state_version: int
    state_bytes: int
    logs: Mapping[str, tuple[int, int]]
    state_writer: str
    state: str | None
