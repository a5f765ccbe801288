"""The names of keys that Python code uses; `catalogue.py` says what every key holds."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from callboard.broker.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Keys:
    """The names of one namespace. All share a hash tag, so that they live in one slot of a cluster."""

    namespace: str

    def __post_init__(self) -> None:
        if not self.namespace or any(c in self.namespace for c in "{} \n\t*?[]"):
            raise SettingsError(
                f"the namespace {self.namespace!r} is not valid: use letters, digits, '-', '_', '.' and ':'"
            )

    @property
    def prefix(self) -> str:
        return f"callboard:{{{self.namespace}}}:"

    def of(self, suffix: str) -> str:
        """The key for a suffix such as `topic:visits` or `workers`."""
        return self.prefix + suffix


TOPIC = "topic:"  # what the suffix of a topic's stream begins with
CONTROL = "control"  # the suffix of the stream of orders to workers
RUNS = "runs"  # the suffix of the list of runs


def topic(topic_type: str) -> str:
    """The suffix of a topic's stream."""
    return TOPIC + topic_type


def inbox(agent_type: str) -> str:
    """The suffix of the stream of direct messages to agents of a type."""
    return f"inbox:{agent_type}"


def dead(agent_type: str) -> str:
    """The suffix of a type's dead letters."""
    return f"dead:{agent_type}"


def bell(agent_type: str) -> str:
    """The suffix of the list that wakes an idle worker of a type."""
    return f"bell:{agent_type}"


def reply(process: str) -> str:
    """The suffix of the stream of replies to one process, whose name begins with the user that it logs in as."""
    return f"reply:{process}"


def run(run_id: str) -> str:
    """The suffix of the stream of a run."""
    return f"run:{run_id}"


def user_in_names(user: str) -> str:
    """A user of the server as a part of the names of Redis keys, and of patterns of them."""
    return quote(user or "default", safe="")
