"""Every setting, once, with its type, default, unit and meaning; and the only place that reads the environment.

docs/settings.md is generated from it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields
from typing import Any, Final, Literal, NamedTuple

from .errors import SettingsError
from .setting_rules import SWITCH, TEXT, Rule, checked, choice, count, did_you_mean, seconds, setting, size

logger = logging.getLogger("callboard.broker")

PREFIX: Final = "CALLBOARD_"
_NO_SETTINGS: Final = frozenset({"CALLBOARD_PROCESS_TOKEN"})  # a supervisor gives it to each of its children
DEFAULT_NAMESPACE: Final = "main"


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """How this process uses the server. Each setting is described where it is declared, and in docs/settings.md.

    Raises:
        SettingsError: a value that can't work, or a setting that does not exist.
    """

    url: str | None = setting(
        None, TEXT, "The server: redis://, rediss://, unix:// or memory://. None: the embedded server."
    )
    namespace: str | None = setting(
        None,
        TEXT,
        "What keeps applications on one server apart: the part in braces of every key. None: the name of the "
        "App; without one a throw-away namespace for a runtime, `main` for anything else.",
    )
    lease: float = setting(5.0, seconds(), "How long a silent worker keeps what it holds.")
    beat_every: float = setting(
        1.0, seconds(), "Between two heartbeats of a worker, which beats at least twice in a lease."
    )
    keeper: bool = setting(
        True,
        SWITCH,
        "Beside each worker runs a tiny process that extends its lease while a call into C holds "
        "Python's lock (GIL), and ends a worker process that does so past a handler's `max_runtime`. Not for memory://.",
    )
    max_silence: float = setting(
        60.0,
        seconds(),
        "How long the keeper extends the lease of a silent worker none of whose handlers has a `max_runtime`.",
    )
    prefetch: int = setting(512, count("entries"), "What a worker may hold.")
    concurrency: int = setting(100, count("handlers"), "What runs at once in one process.")
    max_attempts: int = setting(
        3, count("attempts"), "How often a message is tried before it becomes a dead letter."
    )
    retry_base: float = setting(
        0.1, seconds(or_zero=True), "Pause before the second attempt; it doubles with each further one."
    )
    retry_cap: float = setting(30.0, seconds(), "Longest pause between attempts.")
    retry_outage: float = setting(
        600.0,
        seconds(or_zero=True),
        "How long, in pauses all together, a message is tried again without using up an attempt while its "
        "handler's errors are outages, such as a server that can't be reached. 0: an outage is an error like any other.",
    )
    request_timeout: float = setting(30.0, seconds(), "How long a request waits for its reply.")
    max_payload: int = setting(1_048_576, size(), "Largest body of a message.")
    claim_check: bool = setting(
        False,
        SWITCH,
        "Larger bodies are kept beside their stream instead of being refused, as with claim_check=True.",
    )
    max_claim: int = setting(134_217_728, size(), "Largest body that is kept beside its stream.")
    max_depth: int = setting(32, count("levels"), "Deepest nesting of a body.")
    max_elements: int = setting(100_000, count("values"), "Most values in a body, all levels together.")
    retain: int = setting(
        1_000, count("entries", or_zero=True), "Handled entries that stay in a stream, to be looked at."
    )
    max_unclaimed: int = setting(
        100_000, count("entries", or_zero=True), "What is kept in a topic that no agent type subscribes to."
    )
    forget_topics_after: float = setting(
        604_800.0,
        seconds(or_zero=True),
        "After which a topic is forgotten that only a prefix subscription made known, when all of it is "
        "handled and nothing came since. 0: never.",
    )
    run_events: int = setting(
        100_000, count("entries"), "About how many events the stream of a run keeps: the newest."
    )
    run_retention: float = setting(
        604_800.0, seconds(), "How long the stream of a run is kept after the last event was written to it."
    )
    choice_timeout: float = setting(
        1800.0,
        seconds(),
        "How long a team on the bus may take to choose who speaks next, and to see whether its run ends; then "
        "the run fails.",
    )
    fork_turns: int = setting(
        10_000,
        count("turns"),
        "After how many of its last turns a conversation of a team can be forked. A turn takes some 150 bytes.",
    )
    dedupe_window: float = setting(86_400.0, seconds(), "How long an idempotency id is remembered.")
    drain_grace: float = setting(
        30.0, seconds(or_zero=True), "What running handlers get when a worker stops."
    )
    idle_poll: float = setting(
        0.5, seconds(), "After which an idle worker looks by itself for entries that were added by hand."
    )
    passivate_after: float = setting(
        300.0, seconds(), "After which an idle persistent agent leaves the memory."
    )
    max_idle_agents: int = setting(
        10_000,
        count("agents"),
        "Idle agents without State that one process keeps of each type. Beyond, those that were idle longest "
        "leave the memory, with all that a handler left in their attributes.",
    )
    log_error_texts: bool = setting(
        True,
        SWITCH,
        "The log shows the first 200 characters of what a handler's error says, which may hold data of "
        "messages. False: its class and its place only; the dead letter has all of it in any case.",
    )
    max_memory: int = setting(
        0,
        size(or_zero=True),
        "Resident memory after which a worker process drains and is replaced. 0: no limit.",
    )
    max_messages: int = setting(
        0,
        count("messages", or_zero=True),
        "After which a worker process drains and is replaced. 0: no limit.",
    )
    health_file: str | None = setting(
        None,
        TEXT,
        "A file that a worker renews with each heartbeat that the server answered, and removes when it stops, "
        "for `callboard health`. One for each worker process.",
    )
    connect_timeout: float = setting(5.0, seconds(), "How long to wait for a connection.")
    socket_timeout: float = setting(10.0, seconds(), "How long to wait for an answer of the server.")
    max_backlog: int = setting(
        0,
        count("messages", or_zero=True),
        "What may wait to be handled in a topic, or in the inbox of an agent type. 0: no limit.",
    )
    max_backlog_per_key: int = setting(
        0, count("messages", or_zero=True), "What may wait behind one busy agent. 0: no limit."
    )
    when_full: Literal["wait", "reject"] = setting(
        "wait",
        choice("wait", "reject"),
        'What a publish does then: "wait", at most `publish_timeout`, or "reject" (OverloadedError at once).',
    )
    publish_timeout: float = setting(10.0, seconds(), "How long a publish waits for room.")
    durability: Literal["server", "replica"] = setting(
        "server",
        choice("server", "replica"),
        'When a publish counts as done: "server", as durable as the settings of the server make it; '
        '"replica", when a replica has it as well (WAIT 1).',
    )

    def __post_init__(self) -> None:
        if self.beat_every * 2 > self.lease:
            raise SettingsError(
                f"beat_every={self.beat_every:g} s is too long for lease={self.lease:g} s: "
                "a worker has to beat at least twice in a lease"
            )

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **overrides: Any) -> BrokerSettings:
        """Settings from CALLBOARD_URL, else REDIS_URL, and CALLBOARD_<NAME> for every other; `overrides` win.

        An override that is None counts as not given.

        Raises:
            SettingsError: a value can't be read or makes no sense.
        """
        source = os.environ if environ is None else environ
        warn_of_unknown(source)
        given = {name: value for name, value in overrides.items() if value is not None}
        for spec in fields(cls):
            if spec.name not in given and (text := variable(spec.name, source)):
                given[spec.name] = _rule_of(spec).apply(PREFIX + spec.name.upper(), text, is_text=True)
        return cls(**given)


def variable(setting: str, environ: Mapping[str, str] | None = None) -> str | None:
    """What the environment says of one setting; None: nothing."""
    source = os.environ if environ is None else environ
    text = source.get(PREFIX + setting.upper())
    return text or (source.get("REDIS_URL") if setting == "url" else None) or None


def warn_of_unknown(environ: Mapping[str, str] | None = None) -> None:
    """Logs a warning for every variable that looks like a setting and is none, each once in a process."""
    known = [spec.name.upper() for spec in fields(BrokerSettings)]
    for name in sorted(os.environ if environ is None else environ):
        if name in _NO_SETTINGS or name in _warned:
            continue
        if name.startswith(PREFIX) and name.removeprefix(PREFIX) not in known:
            _warned.add(name)
            hint = did_you_mean(name.removeprefix(PREFIX), known, prefix=PREFIX)
            logger.warning("there is no setting %s; it is ignored%s", name, hint)


class SettingDescription(NamedTuple):
    """One setting, for its documentation.

    Attributes:
        name: of the setting.
        default: when nothing is said.
        unit: what its number counts, or "".
        meaning: a sentence or two.
    """

    name: str
    default: Any
    unit: str
    meaning: str


def described_fields(settings: type[Any]) -> list[SettingDescription]:
    """The settings of a class whose fields are described, in their order."""
    return [
        SettingDescription(spec.name, spec.default, _rule_of(spec).unit, spec.metadata["meaning"])
        for spec in fields(settings)
    ]


def _rule_of(spec: Field[Any]) -> Rule:
    rule: Rule = spec.metadata["rule"]
    return rule


_warned: set[str] = set()
DEFAULTS: Final = BrokerSettings()
