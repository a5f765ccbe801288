"""Views of a namespace, for inspect.py and the command line: plain values, one moment each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTypeView:
    """One agent type.

    Attributes:
        type: its name.
        queued: entries that no worker works on yet: unread, parked behind a busy key, read ahead. None: unknown.
        running: agents that a worker holds, running or next in line.
        parked: entries behind a busy key (part of `queued`).
        backing_off: agents that wait for their next attempt.
        done: messages handled since the namespace was made.
        retried: attempts that failed and were followed by another.
        dead: dead letters that are there now.
        died: dead letters ever written.
        released: entries that a worker gave back unfinished.
        reaped: workers that died while they held something.
        workers: workers alive that run this type.
        streams: suffixes of the streams it reads, such as `topic:visits`.
    """

    type: str
    queued: int | None
    running: int
    parked: int
    backing_off: int
    done: int
    retried: int
    dead: int
    died: int
    released: int
    reaped: int
    workers: int
    streams: tuple[str, ...]


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
        pid: process.
        types: agent types that it runs.
        lease_ms_left: ms until the others take over what it holds; below 0 it is about to be reaped.
        held: entries that it holds.
        running: handlers that ran at its last heartbeat.
        started: when it joined, server ms.
        blocked: what last blocked its event loop; None: nothing did for as long as a beat takes.
    """

    name: str
    host: str
    pid: int
    types: tuple[str, ...]
    lease_ms_left: int
    held: int
    running: int
    started: int
    blocked: BlockedView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """How far one agent type is in one stream.

    Attributes:
        type: the agent type.
        unread: entries that it was not given yet; None: unknown.
        pending: entries that it was given and has not finished.
        position: id of the last entry that it was given.
    """

    type: str
    unread: int | None
    pending: int
    position: str


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
    """Sums over the agent types; see AgentTypeView. `queued` is None when it is not known for one of them."""

    queued: int | None
    running: int
    parked: int
    backing_off: int
    done: int
    retried: int
    dead: int
    died: int
    released: int
    reaped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Something that is paused.

    Attributes:
        kind: "type", "key" or "topic".
        name: agent type, `type/key` of an agent, or topic type.
        since: when it was paused, server ms.
        by: the operator who paused it, "" when none was named.
    """

    kind: str
    name: str
    since: int
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """How a namespace stands.

    Attributes:
        namespace: its name.
        at: server ms.
        types: agent types, by name.
        workers: workers, by name.
        topics: topics, by type.
        timers: messages and agents that wait for their time.
        next_due: when the first of them is due, server ms; None: there is none.
        totals: sums over the types.
        paused: what is paused, the longest first.
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
