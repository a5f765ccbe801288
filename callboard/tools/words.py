"""The words of a text, cut to their stems, and words that mean nearly the same in the talk about tools."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

WORD: Final = re.compile(r"[^\W_]+")
HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
E_MAIL: Final = re.compile(r"\be-(?=[a-z])", re.IGNORECASE)
LEAST: Final = 3  # letters that stay of a word
ENDINGS: Final = (
    "ments",
    "ings",
    "ions",
    "ment",
    "ing",
    "ion",
    "ers",
    "ors",
    "er",
    "or",
    "ed",
    "es",
    "ly",
    "s",
    "e",
)

LITTLE: Final = """
    a all am an and any are as at be been but by can could did do does for from get give had has have he her his how i
    if in into is it its just let like many me more much my need new no not now of on one or our out please right she
    should so some tell than that the their them then there these they this those to up us use want was we were what
    when where which who why will with would you your
"""
"""Words that say nothing about what is wanted."""

GROUPS: Final = """
    weather forecast rain snow sun sunny wind storm temperature cold warm hot umbrella degrees
    currency money exchange euro dollar pound yen franc usd eur
    price cost worth expensive cheap value
    stock share trade market ticker
    pay payment charge invoice bill refund
    mail email inbox letter
    message text sms chat notify inform
    web internet online website google browse
    page url link site
    search find look lookup query
    file document txt pdf csv folder directory disk
    read show open view display print
    write save store record note
    delete remove erase drop cancel
    create make add book schedule plan
    change edit update modify rename
    calendar event meeting appointment agenda schedule
    remind reminder remember forget alarm alert
    translate translation language english german french spanish italian japanese chinese
    image photo picture screenshot
    resize size small big large shrink width height
    route road way drive walk travel trip distance navigate direction map
    flight fly plane airport airline
    hotel room stay accommodation
    restaurant eat food dinner lunch
    calculate compute arithmetic math sum plus minus multiply divide expression
    database sql table row record
    customer client user account
    order buy purchase shop cart
    ship delivery deliver parcel package track
    time clock hour timezone date today day
    music song play album listen
    video movie film watch
    call phone dial number
    contact person people address
    task todo job ticket issue
    code program script python execute run
    summary summarize shorten brief
    news headline article
    user login password sign
    upload download transfer copy
    light lamp bulb switch
    thermostat heat heating
"""
"""Words of one line stand for each other, though less than a word stands for itself."""


def words_of(text: str) -> Iterator[str]:
    """The stems of a text's words in order, little words left out; names are split at ``_`` and at capitals."""
    for found in WORD.findall(HUMP.sub(" ", E_MAIL.sub("e", text))):
        word = found.casefold()
        if word not in _STOP:
            yield stem(word)


def stem(word: str) -> str:
    """The part of a word that its forms share, roughly: ``translates``, ``translation``, ``translator``."""
    if word.endswith("ies") and len(word) > LEAST + 2:
        word = f"{word[:-3]}y"
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= LEAST:
            word = word[: -len(ending)]
            break
    # run and running
    return word[:-1] if len(word) > LEAST and word[-1] == word[-2] else word


_STOP: Final = frozenset(LITTLE.split())


def _related() -> Mapping[str, frozenset[str]]:
    related: dict[str, set[str]] = {}
    for line in GROUPS.strip().splitlines():
        group = {stem(word) for word in line.split()}
        for word in group:
            related.setdefault(word, set()).update(group - {word})
    return {word: frozenset(others) for word, others in related.items()}


RELATED: Final[Mapping[str, frozenset[str]]] = _related()
"""Stem -> the stems that stand for it."""
