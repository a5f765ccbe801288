"""The arguments of the Lua functions, and the values that repeat among them: their names, in their order, in one place.

In the files of an operation `ARGV.terms` stands for `ARGV[4]`, where `terms` is its fourth argument, and `TERMS_AT` for 4.
What repeats is a record, whose values are counted from where it begins: `ARGV[at + HEADED_BODY]`; `HEADED_WIDTH` is how many
it has. The numbers are put in when the library's text is made, so a name costs nothing when a function runs. What a value
means stands on top of the operation's file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TURN: Final = "worker number answered terms held scan accept wanted count"
REPLY: Final = "process call id kind from head body"

ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "publish": ("producer batch limits count fences messages",),
    "write": ("producer batch count writes",),
    # The second line is of a turn with one commit, of which nothing is written but a reply.
    "turn": (f"{TURN} commits", f"{TURN} type stream entries mode entry key {REPLY}"),
    "beat": ("worker lease retain max_unclaimed held running answered forget types blocked",),
    "unsubscribe": ("type kind name",),
    "join": ("name lease types host pid accepts highest",),
    "leave": ("crashed exact names",),
    "resync": ("worker number answered",),
    "replay": ("type action letters",),
    "record": ("worker holds type message name result window",),
    "recall": ("worker holds type message name",),
    "ask": ("worker holds type message name id expires kept count question",),
    "input": ("ending id answer by",),
    "ledger": (
        "action id tokens usd held_for count",
        "action id lasts all_scopes",
        "action id lasts part number scopes",
    ),
    "window": ("action id requests tokens usd limits", "action scope length"),
    "restore": ("type key data logs",),
    "control": ("action message ends", "action kind name by when worker holds", "action type key id sender"),
    "nest": (
        "worker holds window idempotent process type message request id kind key from head body blob bytes",
    ),
    "answer": ("worker holds type message entry ending window process id kind from head body blob bytes",),
    "idle": ("place",),
    "tally": ("what stream from", "what type place"),
    "pulse": ("what type rank streams cursor", "what type agents", "what type suffixes", "what first"),
    "schedule": ("action app declared", "action name due instead", "action name paused"),
    "repair": ("mode suspicions",),
    "retype": ("action type new how names",),
}
"""The arguments of each function; several lines where they differ. `declare` and `measure` read one after the other."""

MESSAGE_FORMS: Final = {"PLAIN": "p", "HEADED": "h", "FULL": "f"}
"""How a run of messages says which values each of them has: the record of that name."""

RECORDS: Final[Mapping[str, tuple[str, ...]]] = {
    name: tuple(values.split())
    for name, values in {
        # Messages that are published: runs of one form, and the values of a message in each form.
        "RUN": "form stream type count",
        "PLAIN": "id key body",
        "HEADED": "id key from head body",
        "FULL": "id key from head body due idempotent waiting",
        "FENCE": "message worker holds",
        "CLAIM": "blob bytes",
        # What a commit brings: runs of commits, then what their marks say, see library.py.
        "COMMITS": "type stream count mode",
        "BURIED": "reason error traceback attempts first",
        "RETRIED": "due attempts first reason",
        "WAITS": "message version",
        "SUSPENDED": "message attempts first wake count",
        "CLAIMS": "blob count",
        "ONCE": "window count",
        "REPLIED": REPLY,
        "OUTGOING": "stream due id type key from head body",
        "WRITER": "worker holds",
        "WRITE": "run most kept_for tag settles since count",
        "EVENT": "type version body",
        "LOG": "field dropped count",
        # What a turn gives: runs of deliveries, the values of a delivery in each form, and of a state.
        "GIVEN": "type stream kind width count",
        "GIVEN_PLAIN": "entry id key body",
        "GIVEN_HEADED": "entry id key from head body",
        "GIVEN_FULL": "entry id key from head tries at body",
        "STATE": "delivery version data logs",
        # What the smaller functions take.
        "LETTER": "id head",
        "SUSPICION": "kind first second third",
        "SCHEDULE": "name said digest first",
        "AMOUNT": "field number",
        "CEILING": "scope length unit most",
        "WINDOW": "scope length",
    }.items()
}
"""Values that repeat among the arguments of functions, or in their answers."""


def width_of(record: str) -> int:
    """How many values a record has."""
    return len(RECORDS[record])


def index_of(function: str, argument: str) -> int:
    """The place of an argument in the list that a caller hands over, from 0."""
    return next(line.split().index(argument) for line in ARGUMENTS[function] if argument in line.split())


def record_constants() -> dict[str, str]:
    """The names of records in Lua, with their numbers, and those of the forms of messages."""
    places = {
        f"{name}_{value}".upper(): str(i)
        for name, values in RECORDS.items()
        for i, value in enumerate(values)
    }
    widths = {f"{name}_WIDTH": str(len(values)) for name, values in RECORDS.items()}
    return {**places, **widths, **{f"{name}_FORM": f"'{letter}'" for name, letter in MESSAGE_FORMS.items()}}


def argument_constants(function: str) -> dict[str, str]:
    """The names of a function's arguments in Lua, with what stands for them.

    Raises:
        ValueError: one name stands for two places.
    """
    names: dict[str, str] = {}
    for line in ARGUMENTS.get(function, ()):
        for place, name in enumerate(line.split(), 1):
            if names.setdefault(f"ARGV.{name}", f"ARGV[{place}]") != f"ARGV[{place}]":
                raise ValueError(f"the argument {name!r} of {function!r} has two places: give them two names")
            names[f"{name.upper()}_AT"] = str(place)
    return names
