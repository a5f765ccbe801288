"""How much of commits one turn carries."""

from __future__ import annotations

from collections.abc import Sequence

from callboard.broker.outcome import NOTHING, Commit, DeadLetter, Outcome, Suspend

from .mailbox import Finished

PAYLOADS = 4
"""Largest bodies that one turn carries: enough that a turn costs little beside them, and soon through a slow line."""

SMALL = 65_536
"""Bytes that pass through any line on which a worker can work: that a turn with less was lost has another reason."""

MOST_RECORDS = 100
"""Commits in one turn that end, or leave, what a handler recorded or asked: at 80 microseconds the server stands still for
8 ms, where most others take 15 each."""

LONGEST_TRIAL = 1024
"""Turns that have to go well, at most, before more is tried: each trial that fails costs a whole timeout."""


class Portion:
    """What one turn carries of what is finished: at least one commit, and no more bytes than the line lets pass in time.

    Whatever is too large to pass before the timeout is sent again after it; were it never less, the worker would repeat it
    for ever while its lease lives.

    Args:
        max_payload: largest body of a message, in bytes.

    Attributes:
        limit: bytes of the next turn.
    """

    def __init__(self, max_payload: int) -> None:
        self._most = PAYLOADS * max_payload
        self.limit = self._most
        self._trial = 1
        self._good = 0

    def cut(self, finished: Sequence[Finished]) -> int:
        """How many of these, from the first on, the next turn carries."""
        if len(finished) < 2:  # at least one leaves, whatever it is
            return len(finished)
        size = records = 0
        for count, item in enumerate(finished):
            outcome = item[2]
            if outcome is NOTHING:
                continue
            size += weight(outcome)
            # guard: a turn carries no more than passes
            if size > self.limit and count:
                return count
            records += _has_record(outcome)
            # guard: a turn keeps the server from others for a few ms only
            if records > MOST_RECORDS:
                return count
        return len(finished)

    def was_lost(self, sent: Sequence[Finished]) -> None:
        """A turn with these was not answered: the next one carries half of it."""
        size = sum(weight(outcome) for _, _, outcome in sent)
        if size <= SMALL:
            return
        if self._good or self.limit == self._most:
            self._trial = min(2 * self._trial, LONGEST_TRIAL)
        self._good = 0
        # guard: after a lost turn less is sent
        self.limit = min(self.limit, size) // 2

    def went_well(self, sent: Sequence[Finished]) -> None:
        """A turn was answered: after a few, twice as much is tried; after more of them, when that failed before."""
        if self._trial == 1:
            return
        self._good += 1
        if self.limit == self._most:
            if sum(weight(outcome) for _, _, outcome in sent) > self._most // 2:
                self._trial = 1
        elif self._good % self._trial == 0:
            self.limit = min(self._most, 2 * self.limit)


def _has_record(outcome: Outcome) -> bool:
    return outcome.once_of is not None if isinstance(outcome, Commit) else isinstance(outcome, Suspend)


def weight(outcome: Outcome) -> int:
    """The bytes that its commit carries, but for what is small in any of them."""
    size = 0
    if isinstance(outcome, Commit):
        if outcome.state is not None:
            size = len(outcome.state[1])
        if outcome.logs is not None:
            size += sum(sum(map(len, change.appended)) for change in outcome.logs[1])
        for posting in outcome.outgoing:
            size += len(posting.envelope.body)
            if posting.claim is not None:
                size += len(posting.claim.body)
        for write in outcome.events:
            size += write.size
    elif isinstance(outcome, DeadLetter):
        size = len(outcome.error.traceback) if outcome.error is not None else 0
    else:
        return 0
    reply = outcome.reply
    if reply is not None:
        size += len(reply.envelope.body) + (len(reply.claim.body) if reply.claim is not None else 0)
    return size
