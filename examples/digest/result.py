"""The ten results of a job into one digest."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from .errors import IncompleteDigestError
from .messages import PARTS, Pick, Result
from .text import count_words, is_finished


@dataclass(frozen=True, slots=True)
class Digest:
    """A finished digest.

    Attributes:
        title: Heading of the whole.
        limit: Longest digest that was asked for, in words.
        picks: Its sentences in the order of the text.
        headings: Headings of the documents that have prose under them, each as (document, title).
        source_words: Words of prose in the documents.
    """

    title: str
    limit: int
    picks: tuple[Pick, ...]
    headings: tuple[tuple[str, str], ...]
    source_words: int

    @classmethod
    def of(cls, results: Iterable[Result]) -> "Digest":
        """Put the results of one job together, in whatever order they came.

        Raises:
            IncompleteDigestError: If there is not exactly one result for each of the ten subtasks.
        """
        by_number = {result.number: result for result in results}
        missing = [number for number in range(1, PARTS + 1) if number not in by_number]
        if missing:
            raise IncompleteDigestError(missing)
        ordered = [by_number[number] for number in range(1, PARTS + 1)]
        headings = (
            (heading.document, heading.title) for one in ordered for heading in one.headings if heading.words
        )
        return cls(
            title=ordered[0].title,
            limit=ordered[0].words,
            picks=tuple(pick for one in ordered for pick in one.picks),
            headings=tuple(dict.fromkeys(headings)),
            source_words=sum(one.source_words for one in ordered),
        )

    @property
    def covered(self) -> int:
        """The number of headings that have a sentence."""
        return len({(pick.document, pick.heading) for pick in self.picks} & set(self.headings))

    @property
    def markdown(self) -> str:
        """The digest, with a heading above each run of sentences; ends with a line break.

        Never longer than the limit: where it would be, the sentences that matter least are left out.
        """
        picks = list(self.picks)
        single = len({document for document, _ in self.headings}) == 1
        text = _markdown(self.title, picks, single=single)
        while picks and _length(text) > self.limit:
            picks.remove(min(picks, key=lambda pick: (pick.score, -pick.place)))
            text = _markdown(self.title, picks, single=single)
        return text


def render(results: Iterable[Result]) -> str:
    """Give the digest of ten results as markdown; see `Digest.of` and `Digest.markdown`."""
    return Digest.of(results).markdown


def _length(text: str) -> int:
    return max(count_words(text), len(text.split()))


def _markdown(title: str, picks: Sequence[Pick], *, single: bool) -> str:
    lines = [f"# {title}"]
    if not picks:
        lines.append("No sentence was found that could be quoted.")
    lines += _body(picks, single=single)
    return "\n\n".join(lines) + "\n"


def _body(picks: Sequence[Pick], *, single: bool) -> Iterator[str]:
    document, heading = (picks[0].document if single and picks else "", "")
    paragraph: list[str] = []
    for pick in picks:
        if (pick.document, pick.heading) != (document, heading):
            yield from _paragraph(paragraph)
            paragraph = []
            if pick.document != document:
                yield f"## {pick.document}"
            if pick.heading:
                yield f"{'##' if single else '###'} {pick.heading}"
            document, heading = pick.document, pick.heading
        paragraph.append(_ended(pick.text))
    yield from _paragraph(paragraph)


def _paragraph(texts: Sequence[str]) -> Iterator[str]:
    if texts:
        yield " ".join(texts)


def _ended(text: str) -> str:
    """A list item often has no full stop, and the sentence after it would run on."""
    return text if is_finished(text) else f"{text.rstrip(',;')}."
