"""Which sentences matter, and the best of them within a budget of words.

A sentence is worth more when it holds the terms that its whole job and its own part speak of most, opens a
section or a paragraph, and takes up its heading; less when it is a fragment, refers back to what is not
there, or is full of signs. Sums are taken in a fixed order and rounded, so that every process finds the same
scores.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log1p

from .messages import Heading, Measure, Pick, Section
from .text import count_words, is_finished, is_introduction, similarity, terms

MAX_TERMS = 200
"""Terms with a weight, per job."""

REPEATED = 0.7
"""From this similarity on, one sentence says what another says already."""

_FLOOR = 0.35
"""Share of the part's best score below which a sentence is not worth its words."""

_COVERING_FLOOR = 0.15
"""The same share for a sentence that is to cover a heading."""

_LEADING_ASIDE = re.compile(
    r"(?:and|or|but|so|then|also|this|that|these|those|it|its|they|them|their|he|she|his|her|however|therefore"
    r"|thus|hence|otherwise|instead|moreover|furthermore|additionally|besides|likewise|similarly|both|neither|such|here"
    r"|there|meanwhile|finally|next|yet|still|again|see|note|and/or|same|other|another|former|latter)\b",
    re.IGNORECASE,
)
_URL = re.compile(r"\w+://|www\.")
_NOTATION = re.compile(r"[-=]>|[→⇒|=<>·]|\s[+/·]\s")
_BEGINNING = re.compile(r"[\"'“‘(`«「『]?[^\W_]")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sentence that may be chosen.

    Attributes:
        place: Place of the sentence in the whole job.
        section: Index of its heading.
        text: The sentence.
        words: Its length.
        terms: Its distinct terms.
        score: Its weight, rounded.
    """

    place: int
    section: int
    text: str
    words: int
    terms: Sequence[str]
    score: float


@dataclass(frozen=True, slots=True)
class Choice:
    """The sentences chosen from one part, and the words that they left."""

    picks: list[Pick]
    headings: list[Heading]
    measure: Measure


def weigh(texts: Iterable[str]) -> dict[str, float]:
    """Weigh the terms of some sentences by the share of sentences that use them.

    Args:
        texts: The sentences.

    Returns:
        At most `MAX_TERMS` terms with weights from 0 to 1, the heaviest first. Terms that most sentences use
        are left out: these are the stop words of whatever language it is.
    """
    rows = [terms(text) for text in texts]
    used = Counter(term for row in rows for term in row)
    most = len(rows) if len(rows) < 20 else len(rows) * 3 // 10
    least = 1 if len(rows) < 20 else 2
    kept = [(term, count) for term, count in used.items() if least <= count <= most]
    kept.sort(key=lambda pair: (-pair[1], pair[0]))
    top = log1p(kept[0][1]) if kept else 1.0
    return {term: round(log1p(count) / top, 4) for term, count in kept[:MAX_TERMS]}


def choose(
    sections: Sequence[Section],
    weights: Mapping[str, float],
    budget: int,
    cover: Collection[int] = (),
    drop: Collection[int] = (),
) -> Choice:
    """Choose the best sentences of a part.

    Args:
        sections: The part.
        weights: Terms that matter in the whole job.
        budget: Most words, headings included.
        cover: Headings that must have a sentence if one fits.
        drop: Places of sentences that must not be chosen.

    Returns:
        The choice, in the order of the text, never longer than the budget.
    """
    headings, owner = _headings(sections)
    candidates = _candidates(sections, owner, weights)
    allowed = [candidate for candidate in candidates if candidate.place not in drop]
    selection = _Selection(allowed, [_heading_words(heading) for heading in headings], budget)
    for wanted in sorted(cover):
        selection.take_best([one for one in selection.worthy(_COVERING_FLOOR) if one.section == wanted])
    while selection.take_best(selection.worthy()):
        pass
    for candidate in allowed:
        headings[candidate.section] = _longer(headings[candidate.section], candidate.words)
    return Choice(selection.picks(headings), headings, selection.measure())


class _Selection:
    """Takes one candidate after the other, always the one that adds most."""

    def __init__(self, candidates: Sequence[Candidate], heading_words: Sequence[int], budget: int) -> None:
        self._candidates = sorted(candidates, key=lambda one: (-one.score, one.place))
        self._heading_words = heading_words
        self._left = budget
        self._budget = budget
        self._overlap = dict.fromkeys((one.place for one in candidates), 0.0)
        self._taken: dict[int, Candidate] = {}
        self._sections: set[int] = set()

    def cost(self, candidate: Candidate) -> int:
        """Words that a candidate adds, with its heading if that is new."""
        heading = 0 if candidate.section in self._sections else self._heading_words[candidate.section]
        return candidate.words + heading

    def worthy(self, share: float = _FLOOR) -> list[Candidate]:
        """Candidates with at least this share of the best score."""
        floor = self._candidates[0].score * share if self._candidates else 0.0
        return [one for one in self._candidates if one.score >= floor]

    def take_best(self, candidates: Sequence[Candidate]) -> bool:
        """Take the candidate that adds most among those that fit.

        Returns:
            Whether there was one.
        """
        best = self._best([one for one in candidates if self.cost(one) <= self._left])
        if best is None:
            return False
        self._left -= self.cost(best)
        self._taken[best.place] = best
        self._sections.add(best.section)
        for one in self._candidates:
            self._overlap[one.place] = max(self._overlap[one.place], similarity(one.terms, best.terms))
        return True

    def picks(self, headings: Sequence[Heading]) -> list[Pick]:
        """The chosen sentences, in the order of the text."""
        return [
            Pick(
                place=one.place,
                document=headings[one.section].document,
                heading=headings[one.section].title,
                text=one.text,
                score=one.score,
            )
            for _, one in sorted(self._taken.items())
        ]

    def measure(self) -> Measure:
        """Lengths and scores of what was taken and what was left."""
        best = self._candidates[0] if self._candidates else None
        following = self._best(self.worthy())
        return Measure(
            used=self._budget - self._left,
            available=self._available(),
            need=best.words + self._heading_words[best.section] if best else 0,
            best=best.score if best else 0.0,
            mass=round(sum(one.score for one in self._candidates[:3]), 4),
            next_words=self.cost(following) if following else 0,
            next_score=self._gain(following) if following else 0.0,
        )

    def _available(self) -> int:
        sections = sorted({one.section for one in self._candidates})
        return sum(one.words for one in self._candidates) + sum(self._heading_words[at] for at in sections)

    def _best(self, candidates: Sequence[Candidate]) -> Candidate | None:
        free = [
            one for one in candidates if one.place not in self._taken and self._overlap[one.place] < REPEATED
        ]
        return min(free, key=lambda one: (-self._gain(one), one.place), default=None)

    def _gain(self, candidate: Candidate) -> float:
        # Another heading tells more than one more sentence under the same.
        fresh = 0.7 if candidate.section in self._sections else 1.0
        return round(candidate.score * (1 - self._overlap[candidate.place]) * fresh, 4)


def _headings(sections: Sequence[Section]) -> tuple[list[Heading], list[int]]:
    """The distinct headings in order, and for each section the index of its heading."""
    known: dict[tuple[str, str], int] = {}
    owner = [known.setdefault((section.document, section.title), len(known)) for section in sections]
    return [Heading(document=document, title=title, words=0) for document, title in known], owner


def _heading_words(heading: Heading) -> int:
    return count_words(heading.title or heading.document)


def _longer(heading: Heading, words: int) -> Heading:
    return heading.model_copy(update={"words": heading.words + words})


def _candidates(
    sections: Sequence[Section], owner: Sequence[int], weights: Mapping[str, float]
) -> list[Candidate]:
    local = weigh(text for section in sections for text in section.sentences)
    found: list[Candidate] = []
    for section, index in zip(sections, owner, strict=True):
        heading = terms(section.title or section.document)
        leads, depends, said = frozenset(section.leads), frozenset(section.depends), frozenset(section.said)
        for at, text in enumerate(section.sentences):
            row = terms(text)
            score = _relevance(row, weights, local) * _shape(text) * _position(section, at, at in leads)
            score *= (1 + 0.25 * similarity(heading, row)) * (0.6 if at in depends else 1.0)
            if score > 0 and at not in said:
                found.append(
                    Candidate(section.start + at, index, text, count_words(text), row, round(score, 4))
                )
    return found


def _relevance(row: Sequence[str], weights: Mapping[str, float], local: Mapping[str, float]) -> float:
    # The constants keep a very short sentence from winning by one heavy word, and one without known terms
    # above nothing.
    everywhere = sum(weights.get(term, 0.0) for term in row)
    here = sum(local.get(term, 0.0) for term in row)
    return (0.6 * everywhere + 0.4 * here + 0.05) / (len(row) + 4)


def _position(section: Section, at: int, leads: bool) -> float:
    if at == 0 and section.opens:
        # What opens a whole document mostly says what it is about.
        return 1.35 if section.title else 2.0
    return 1.15 if leads else 1.0


def _shape(text: str) -> float:
    """The degree to which a sentence stands alone, from 0 (not to be quoted) to 1."""
    words = count_words(text)
    if not words or is_introduction(text):
        return 0.0
    factor = _length_factor(words)
    if not is_finished(text):
        factor *= 0.6
    if not _BEGINNING.match(text) or text[0].islower():
        factor *= 0.35
    if _LEADING_ASIDE.match(text):
        factor *= 0.6
    if text[0] == "(" or "?" in text[-2:]:
        factor *= 0.6
    if _URL.search(text):
        factor *= 0.5
    return factor * _sign_factor(text)


def _length_factor(words: int) -> float:
    for limit, factor in ((3, 0.15), (5, 0.4), (7, 0.75), (30, 1.0), (40, 0.8), (55, 0.55)):
        if words <= limit:
            return factor
    return 0.35


def _sign_factor(text: str) -> float:
    letters = sum(1 for char in text if char.isalpha() or char.isspace())
    share = letters / len(text)
    factor = 1.0 if share > 0.88 else 0.8 if share > 0.8 else 0.4
    if _NOTATION.search(text):
        factor *= 0.6
    if text.count("`") > 6:
        factor *= 0.7
    if any(text.count(one) != text.count(other) for one, other in ("()", "[]", "“”")):
        factor *= 0.5
    return factor
