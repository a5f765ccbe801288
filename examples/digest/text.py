"""Sentences, words and terms of plain text, in any language, without a dictionary.

Nothing here depends on the order of a set or on the process's hash seed: the same text gives the same answer
everywhere.
"""

import re
from collections.abc import Iterator, Sequence

MAX_SENTENCE_WORDS = 100
"""A longer run of words without a full stop is cut, so that one sentence cannot be longer than the shortest
digest."""

MAX_SENTENCE_CHARS = 1_000
"""The same limit for text without spaces, such as encoded data."""

# Scripts that put no spaces between words: Thai to Tibetan, Burmese, Khmer, kana, Han.
_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_UNSPACED_CHAR = re.compile(f"[{_UNSPACED}]")
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_SEPARATORS = re.compile(r"[\s\"'’‘“”`(){}\[\]<>«»„.,;:!?/\\|=+*#&%@~^_—–…·•、。，！？：；（）「」『』-]+")
_CODE = re.compile(r"`[^`]+`")
_STOP = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s)|[。！？｡]+[」』”’）\"']*")
_FINISHED = re.compile(r"[.!?…。！？｡][\"'”’»)\]」』）`]*$")
_LAST_WORD = re.compile(r"[^\s(\[\"'“‘]+$")
_ABBREVIATION = re.compile(
    r"(?:e\.g|i\.e|a\.k\.a|etc|cf|vs|viz|ca|approx|resp|incl|excl|no|nr|fig|eq|sec|ch|vol|ed|eds|pp?|al|mr|mrs|ms"
    r"|dr|prof|st|jr|sr|inc|ltd|co|corp|dept|est|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|z\.b|d\.h"
    r"|bzw|usw|u\.s|[^\W\d_]|\d{1,3})\.?$",
    re.IGNORECASE,
)

STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a about above after again all also am an and any are as at be because been before being below
        between both but by can could did do does doing don done down during each either else even
        ever every few for from further get gets give given goes had has have having he her here
        hers him his how however i if in instead into is it its itself just keep let like made
        make makes many may me might more most much must my need needs neither new no nor not now
        of off on once one only onto or other our out over own per put rather same say says see
        seen set shall she should since so some still such take than that the their them then
        there these they thing things this those through thus to too two under until up upon use
        used uses using very via want was way we well were what when where whether which while who
        whole whom whose why will with within without would yes yet you your""",
    )
)


def is_finished(text: str) -> bool:
    """True if a text ends like a sentence, closing quotes and brackets aside."""
    return _FINISHED.search(text[-20:]) is not None


def is_introduction(text: str) -> bool:
    """True if a text ends with a colon, so that it introduces what follows."""
    return text.endswith((":", "："))


def count_words(text: str) -> int:
    """Count words: what white space separates, and every two characters of a script that has no spaces.

    Args:
        text: Any text; signs without a letter or digit count for nothing.

    Returns:
        The number of words.
    """
    count = 0
    for token in text.split():
        unspaced = len(_UNSPACED_CHAR.findall(token))
        if not unspaced:
            count += any(map(str.isalnum, token))
            continue
        rest = _UNSPACED_CHAR.sub("", token)
        count += (unspaced + 1) // 2 + any(map(str.isalnum, rest))
    return count


def terms(text: str) -> list[str]:
    """Give the distinct terms of a text in the order of their first use.

    Stop words and single characters are left out, plural and tense endings cut; text without spaces gives
    pairs of characters.
    """
    found: dict[str, None] = {}
    for token in _SEPARATORS.split(text.casefold()):
        if not token:
            continue
        if _UNSPACED_CHAR.search(token):
            found.update(dict.fromkeys(_pairs(token)))
        elif len(token) > 1 and token not in STOP_WORDS and not token.isdecimal():
            found[_stem(token)] = None
    return list(found)


def similarity(one: Sequence[str], other: Sequence[str]) -> float:
    """Share of the shorter list's terms that the other has too, from 0 to 1; 0 when either is empty."""
    shorter, longer = sorted((one, other), key=len)
    if not shorter:
        return 0.0
    return len(set(shorter) & set(longer)) / len(shorter)


def sentences(paragraph: str) -> list[str]:
    """Cut a paragraph into sentences.

    A full stop ends a sentence when what follows looks like a beginning; not after an abbreviation, inside
    brackets or inside a code span.

    Args:
        paragraph: Text without line breaks; inline code in backticks.

    Returns:
        The sentences in order, without surrounding space. Joined, they hold every character but the space
        between them.
    """
    cut: list[str] = []
    start = 0
    for end in _ends(paragraph):
        cut.extend(_chopped(paragraph[start:end].strip()))
        start = end
    cut.extend(_chopped(paragraph[start:].strip()))
    return cut


def _ends(paragraph: str) -> Iterator[int]:
    masked = _CODE.sub(lambda span: "`" + "x" * (len(span.group()) - 2) + "`", paragraph)
    inside = _bracketed(masked)
    for stop in _STOP.finditer(masked):
        if stop.end() not in inside and _is_end(masked, stop):
            yield stop.end()


def _is_end(text: str, stop: re.Match[str]) -> bool:
    if stop.group()[0] in "。！？｡":
        return True
    following = text[stop.end() : stop.end() + 80].lstrip()[:1]
    if not following or following.islower():
        return False
    if stop.group() != ".":
        return True
    word = _LAST_WORD.search(text, max(0, stop.start() - 40), stop.start())
    return word is None or _ABBREVIATION.match(word.group()) is None


def _bracketed(text: str) -> set[int]:
    """Positions inside round brackets that are closed again; an unclosed one must not swallow the rest."""
    inside: set[int] = set()
    opened: list[int] = []
    for position, char in enumerate(text):
        if char == "(":
            opened.append(position)
        elif char == ")" and opened:
            begin = opened.pop()
            # An aside of several lines is text in its own right.
            if not opened and position - begin < 400:
                inside.update(range(begin, position + 1))
    return inside


def _chopped(sentence: str) -> Iterator[str]:
    while sentence:
        end = _longest(sentence)
        yield sentence[:end].rstrip()
        sentence = sentence[end:].lstrip()


def _longest(sentence: str) -> int:
    if len(sentence) <= MAX_SENTENCE_CHARS and count_words(sentence) <= MAX_SENTENCE_WORDS:
        return len(sentence)
    end = min(len(sentence), MAX_SENTENCE_CHARS)
    while end > 1 and count_words(sentence[:end]) > MAX_SENTENCE_WORDS:
        end = end * 9 // 10
    for mark in ("; ", ", ", " "):
        # A cut near the front would leave crumbs.
        at = sentence.rfind(mark, end // 2, end)
        if at > 0:
            return at + len(mark)
    return end


def _pairs(token: str) -> Iterator[str]:
    for run in _UNSPACED_RUN.findall(token):
        yield from (run[at : at + 2] for at in range(max(1, len(run) - 1)))


def _stem(word: str) -> str:
    for ending in ("ies", "ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word[:-1] if word.endswith("s") and len(word) > 3 else word
