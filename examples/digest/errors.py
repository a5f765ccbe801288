"""Errors of the digest job."""

from collections.abc import Sequence

from callboard.foundation import ActorError


class StraySubtaskError(ActorError):
    """Feedback came for a subtask that this worker does not hold.

    Attributes:
        key: The agent key, "<job>/<number>".
    """

    template = "Worker {key} got feedback and holds no subtask. Publish its Subtask first."
    permanent = True

    key: str


class IncompleteDigestError(ActorError):
    """A digest was asked for before all ten results of one job were there.

    Attributes:
        missing: Numbers of the subtasks whose result is missing.
    """

    template = "A digest needs the results of all ten subtasks; missing: {numbers}."

    missing: Sequence[int]

    @property
    def numbers(self) -> str:
        """The missing numbers as one text."""
        return ", ".join(map(str, self.missing))
