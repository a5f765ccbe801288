"""Every setting, once, with its type, default, unit and meaning; and the only place that reads the environment.

docs/settings.md is generated from this file.
"""

from __future__ import annotations

import functools
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar, cast

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from .errors import SettingsError

logger = logging.getLogger("callboard.broker")

PREFIX: Final = "CALLBOARD_"
_NO_SETTINGS: Final = frozenset(
    {
        "CALLBOARD_PROCESS_TOKEN",  # a supervisor gives it to each of its children
        "CALLBOARD_MODELS",  # a table of models, see callboard/models/info.py
    }
)
DEFAULT_NAMESPACE: Final = "main"
UNITS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def parse_size(text: str) -> int:
    """Bytes from a number with or without a unit: 500MB (10^6 bytes), 64MiB (2^20 bytes), 1.5G, 1048576.

    Raises:
        SettingsError: it is something else.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]i?)?b?", text.strip().lower())
    if found is None:
        raise SettingsError(
            f"{text!r} is no size: write a number of bytes, or one with a unit such as 500MB or 2GiB"
        )
    return int(float(found[1]) * UNITS[found[2] or ""])


def _bytes_of(value: Any) -> Any:
    return parse_size(value) if isinstance(value, str) else value


class Unit(NamedTuple):
    """The unit that the number of a setting counts; for its documentation."""

    name: str


def _in_capitals(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


Text = Annotated[str, Field(min_length=1)]
LogLevel = Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(_in_capitals)]
Seconds = Annotated[float, Field(gt=0), Unit("seconds")]
SecondsOrZero = Annotated[float, Field(ge=0), Unit("seconds")]
Count = Annotated[int, Field(gt=0)]
CountOrZero = Annotated[int, Field(ge=0)]
Bytes = Annotated[int, BeforeValidator(_bytes_of), Field(gt=0), Unit("bytes")]
BytesOrZero = Annotated[int, BeforeValidator(_bytes_of), Field(ge=0), Unit("bytes")]

# What is wrong with a setting, in words

T = TypeVar("T")


def explained(settings: type[T]) -> type[T]:
    """Makes the constructor of settings raise a SettingsError with one sentence instead of a ValidationError."""
    validate = cast("Any", settings).__init__

    @functools.wraps(validate)
    def construct(self: Any, /, **values: Any) -> None:
        try:
            validate(self, **values)
        except ValidationError as error:
            raise SettingsError(sentence_about(error, settings)) from None

    cast("Any", settings).__init__ = construct
    return settings


def sentence_about(
    error: ValidationError, settings: type[Any], variables: Mapping[str, str] | None = None
) -> str:
    """The first problem of a validation as a sentence.

    Args:
        error: what pydantic found.
        settings: the class that was to be made.
        variables: the environment variables that values came from, by the names of the settings.
    """
    problem = error.errors(include_url=False)[0]
    kind, context = problem["type"], problem.get("ctx", {})
    if kind == "value_error" and not problem["loc"]:
        return str(context["error"])
    name = str(problem["loc"][0])
    if kind == "unexpected_keyword_argument":
        return f"there is no setting {name!r}{did_you_mean(name, [spec.name for spec in fields(settings)])}"
    shown = (variables or {}).get(name, name)
    if kind == "value_error":
        return f"{shown}: {context['error']}"
    rule = _rule(kind, context, problem["input"])
    return f"{shown}={problem['input']!r} has to be {rule}" if rule else f"{shown}: {problem['msg']}"


def did_you_mean(text: str, known: list[str], begin: str = ": d", prefix: str = "") -> str:
    """The end of a sentence about a name that does not exist: the nearest one that does, or nothing."""
    import difflib  # when something is wrong

    close = difflib.get_close_matches(text, known, 1)
    return f"{begin}id you mean {prefix + close[0]!r}?" if close else ""


RULES: Final = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number",
    "string_type": "text",
    "string_too_short": "text",
    "bool_type": "True or False",
    "bool_parsing": "1 or 0",
}
COMPARISONS: Final = {"greater_than": "more than {gt:g}", "greater_than_equal": "at least {ge:g}"}


def _rule(kind: str, context: Mapping[str, Any], given: object) -> str:
    if kind in COMPARISONS:
        return COMPARISONS[kind].format_map(context)
    if kind == "literal_error":
        choices = [choice.strip("'") for choice in context["expected"].replace(" or ", ", ").split(", ")]
        return f"one of: {', '.join(choices)}{did_you_mean(str(given), choices, '. D')}"
    return RULES.get(kind, "")


@explained
@dataclass(
    frozen=True, slots=True, kw_only=True, config=ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
)
class BrokerSettings:
    """How this process uses the server. Each setting is described where it is declared, and in docs/settings.md.

    Raises:
        SettingsError: a value that can't work, or a setting that does not exist.
    """

    url: Text | None = Field(
        default=None,
        description=(
            "The server: redis://, rediss://, unix://, memory://, or redis+sentinel://HOST:PORT,HOST:PORT/NAME for the "
            "primary that sentinels call NAME. None: the embedded server."
        ),
    )
    namespace: Text | None = Field(
        default=None,
        description="What keeps applications on one server apart: the part in braces of every key. None: the name of the "
        "App; without one a throw-away namespace for a runtime, `main` for anything else.",
    )
    lease: Seconds = Field(default=5.0, description="How long a silent worker keeps what it holds.")
    beat_every: Seconds = Field(
        default=1.0, description="Between two heartbeats of a worker, which beats at least twice in a lease."
    )
    keeper: bool = Field(
        default=True,
        description="Beside each worker runs a tiny process that extends its lease while a call into C holds "
        "Python's lock (GIL), and ends a worker process that does so past a handler's `max_runtime`. Not for memory://.",
    )
    renew_file: bool = Field(
        default=True,
        description="A worker asks a server that was started again to write its append-only file anew (BGREWRITEAOF): "
        "else Redis may carry out half of a commit that a crash tore, with the next start but one.",
    )
    max_silence: Seconds = Field(
        default=60.0,
        description="How long the keeper extends the lease of a silent worker none of whose handlers has a `max_runtime`.",
    )
    prefetch: Annotated[Count, Unit("entries")] = Field(default=512, description="What a worker may hold.")
    concurrency: Annotated[Count, Unit("handlers")] = Field(
        default=100, description="What runs at once in one process."
    )
    max_attempts: Annotated[Count, Unit("attempts")] = Field(
        default=3, description="How often a message is tried before it becomes a dead letter."
    )
    retry_base: SecondsOrZero = Field(
        default=0.1, description="Pause before the second attempt; it doubles with each further one."
    )
    retry_cap: Seconds = Field(default=30.0, description="Longest pause between attempts.")
    retry_outage: SecondsOrZero = Field(
        default=600.0,
        description="How long, in pauses all together, a message is tried again without using up an attempt while its "
        "handler's errors are outages, such as a server that can't be reached. 0: an outage is an error like any other.",
    )
    request_timeout: Seconds = Field(default=30.0, description="How long a request waits for its reply.")
    max_payload: Bytes = Field(default=1_048_576, description="Largest body of a message.")
    claim_check: bool = Field(
        default=False,
        description="Larger bodies are kept beside their stream instead of being refused, as with claim_check=True.",
    )
    max_claim: Bytes = Field(default=134_217_728, description="Largest body that is kept beside its stream.")
    max_depth: Annotated[Count, Unit("levels")] = Field(default=32, description="Deepest nesting of a body.")
    max_elements: Annotated[Count, Unit("values")] = Field(
        default=100_000, description="Most values in a body, all levels together."
    )
    retain: Annotated[CountOrZero, Unit("entries")] = Field(
        default=1_000, description="Handled entries that stay in a stream, to be looked at."
    )
    max_unclaimed: Annotated[CountOrZero, Unit("entries")] = Field(
        default=100_000, description="What is kept in a topic that no agent type subscribes to."
    )
    forget_topics_after: SecondsOrZero = Field(
        default=604_800.0,
        description="After which a topic is forgotten that only a prefix subscription made known, when all of it is "
        "handled and nothing came since. 0: never.",
    )
    run_events: Annotated[Count, Unit("entries")] = Field(
        default=100_000, description="About how many events the stream of a run keeps: the newest."
    )
    run_retention: Seconds = Field(
        default=604_800.0,
        description="How long the stream of a run is kept after the last event was written to it.",
    )
    choice_timeout: Seconds = Field(
        default=1800.0,
        description="How long a team on the bus may take to choose who speaks next, and to see whether its run ends; then "
        "the run fails.",
    )
    fork_turns: Annotated[Count, Unit("turns")] = Field(
        default=10_000,
        description="After how many of its last turns a conversation of a team can be forked. A turn takes some 150 bytes.",
    )
    dedupe_window: Seconds = Field(default=86_400.0, description="How long an idempotency id is remembered.")
    drain_grace: SecondsOrZero = Field(
        default=30.0, description="What running handlers get when a worker stops."
    )
    idle_poll: Seconds = Field(
        default=0.5,
        description="After which an idle worker looks by itself for entries that were added by hand.",
    )
    passivate_after: Seconds = Field(
        default=300.0, description="After which an idle persistent agent leaves the memory."
    )
    max_idle_agents: Annotated[Count, Unit("agents")] = Field(
        default=10_000,
        description="Idle agents without State that one process keeps of each type. Beyond, those that were idle longest "
        "leave the memory, with all that a handler left in their attributes.",
    )
    log_level: LogLevel = Field(
        default="INFO",
        description="The lowest level that the log of a worker shows: DEBUG, INFO, WARNING, ERROR. An app whose module sets "
        "up logging keeps its own.",
    )
    log_json: bool = Field(default=False, description="Each line of a worker's log is a JSON object.")
    log_error_texts: bool = Field(
        default=True,
        description="The log shows the first 200 characters of what a handler's error says, which may hold data of "
        "messages. False: its class and its place only; the dead letter has all of it in any case.",
    )
    max_memory: BytesOrZero = Field(
        default=0,
        description="Resident memory after which a worker process drains and is replaced. 0: no limit.",
    )
    max_messages: Annotated[CountOrZero, Unit("messages")] = Field(
        default=0, description="After which a worker process drains and is replaced. 0: no limit."
    )
    health_file: Text | None = Field(
        default=None,
        description="A file that a worker renews with each heartbeat that the server answered, and removes when it stops, "
        "for `callboard health`. One for each worker process.",
    )
    metrics_port: Text | None = Field(
        default=None,
        description="Where a worker process gives out metrics for Prometheus, /healthz and /readyz: a port of 127.0.0.1, or "
        "`ADDRESS:PORT`. One for each worker process. None: nowhere, and nothing is counted.",
    )
    connect_timeout: Seconds = Field(default=5.0, description="How long to wait for a connection.")
    socket_timeout: Seconds = Field(default=10.0, description="How long to wait for an answer of the server.")
    max_backlog: Annotated[CountOrZero, Unit("messages")] = Field(
        default=0,
        description="What may wait to be handled in a topic, or in the inbox of an agent type. 0: no limit.",
    )
    max_backlog_per_key: Annotated[CountOrZero, Unit("messages")] = Field(
        default=0, description="What may wait behind one busy agent. 0: no limit."
    )
    when_full: Literal["wait", "reject"] = Field(
        default="wait",
        description='What a publish does then: "wait", at most `publish_timeout`, or "reject" (OverloadedError at once).',
    )
    publish_timeout: Seconds = Field(default=10.0, description="How long a publish waits for room.")
    durability: Literal["server", "replica"] = Field(
        default="server",
        description='When a publish counts as done: "server", as durable as the settings of the server make it; '
        '"replica", when a replica has it as well (WAIT 1).',
    )

    @model_validator(mode="after")
    def _check_lease(self) -> BrokerSettings:
        if self.beat_every * 2 > self.lease:
            raise ValueError(
                f"beat_every={self.beat_every:g} s is too long for lease={self.lease:g} s: "
                "a worker has to beat at least twice in a lease"
            )
        return self

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
        texts = {
            spec.name: text
            for spec in fields(cls)
            if spec.name not in given and (text := variable(spec.name, source))
        }
        try:
            return _ADAPTER.validate_python(
                texts | given, strict=False
            )  # only text that is a number becomes one
        except ValidationError as error:
            variables = {name: PREFIX + name.upper() for name in texts}
            raise SettingsError(sentence_about(error, cls, variables)) from None


def variable(setting: str, environ: Mapping[str, str] | None = None) -> str | None:
    """The value of one setting in the environment; None: it has none."""
    source = os.environ if environ is None else environ
    text = source.get(PREFIX + setting.upper())
    return text or (source.get("REDIS_URL") if setting == "url" else None) or None


_warned: set[str] = set()


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
    described = []
    for name, spec in settings.__pydantic_fields__.items():
        units = [item.name for item in spec.metadata if isinstance(item, Unit)]
        default = spec.get_default(call_default_factory=True)
        described.append(SettingDescription(name, default, "".join(units), spec.description or ""))
    return described


_ADAPTER: Final = TypeAdapter(BrokerSettings)
DEFAULTS: Final = BrokerSettings()
