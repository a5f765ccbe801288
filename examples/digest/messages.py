"""The messages that the four agents of the digest job exchange.

```
Requirements -> splitter -> Subtask x 10 -> worker -> Draft -> compiler -> Compiled -> reviewer
worker <- Feedback <- reviewer, after the first and the second round
          Result   <- reviewer, after the third
```

Every message carries what its handler needs beside the handler's own state, so that a handler is a function
of the two.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

PARTS = 10
"""Subtasks per job, whatever the documents are."""

ROUNDS = 3
"""Times that every subtask is drafted, compiled and reviewed."""

DEFAULT_WORDS = 350
"""Longest digest, in words, headings included."""

Job = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
Number = Annotated[int, Field(ge=1, le=PARTS)]
Round = Annotated[int, Field(ge=1, le=ROUNDS)]


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Document(_Message):
    """One text.

    Attributes:
        name: Path relative to the folder that was given, with `/`; the ending tells how to read it.
        text: The whole text; markdown, or plain when the name ends with `.txt`.
    """

    name: str
    text: str


class Requirements(_Message):
    """The job: make a digest of these documents.

    Attributes:
        job: Names the run; part of every agent key of it.
        title: Heading of the digest.
        documents: In reading order.
        words: Longest digest, in words, headings included.
        pace: Seconds that a worker waits before each draft, so that a person can watch; 0 for none.
    """

    job: Job
    title: str
    documents: list[Document]
    words: int = Field(default=DEFAULT_WORDS, ge=100, le=5_000)
    pace: float = Field(default=0.0, ge=0.0, le=60.0)


class Section(_Message):
    """A run of sentences under one heading.

    Attributes:
        document: Title of the document.
        title: The heading; empty for what stands under the document's own title.
        start: Place of the first sentence in the whole job, from 0.
        sentences: Plain text, in order.
        leads: Which of the sentences (from 0) open a paragraph.
        depends: Which of them belong to a list that the sentence before it introduces.
        said: Which of the sentences stand word for word in an earlier section.
        opens: True if the first sentence is the first under its heading; False where a cut goes through a
            section.
    """

    document: str
    title: str
    start: int
    sentences: list[str]
    leads: list[int]
    depends: list[int]
    said: list[int]
    opens: bool


class _Part(_Message):
    job: Job
    number: Number

    @property
    def key(self) -> str:
        """The key of the agents that work on this subtask: "<job>/<number>"."""
        return f"{self.job}/{self.number}"


class Subtask(_Part):
    """One tenth of the text.

    Attributes:
        title: Heading of the whole digest.
        words: Longest digest, in words.
        target: Words that all drafts together should have, headings included.
        terms: The words that matter in the whole job, with weights from 0 to 1.
        sections: The text of this part; empty when there are fewer sentences than parts.
        pace: Seconds to wait before each draft.
    """

    title: str
    words: int
    target: int
    terms: dict[str, float]
    sections: list[Section]
    pace: float = 0.0


class Pick(_Message):
    """One sentence that was chosen.

    Attributes:
        place: Place of the sentence in the whole job, from 0.
        document: Title of its document.
        heading: Its heading; empty for what stands under the document's title.
        text: The sentence.
        score: Its weight; comparable across the parts of a job.
    """

    place: int
    document: str
    heading: str
    text: str
    score: float


class Heading(_Message):
    """A heading that the part has sentences for.

    Attributes:
        document: Title of the document.
        title: The heading.
        words: Words of the sentences that could be chosen.
    """

    document: str
    title: str
    words: int


class Measure(_Message):
    """The figures of a draft that the compiler and the reviewer need beside its text.

    Attributes:
        used: Words of the draft, headings included.
        available: Words that a draft with every usable sentence would have.
        need: Words of the best sentence with its heading; 0 when there is none.
        best: Score of the best sentence.
        mass: Scores of the three best sentences together.
        next_words: Words that the best sentence left out would add; 0 when there is none.
        next_score: Score of that sentence.
    """

    used: int = 0
    available: int = 0
    need: int = 0
    best: float = 0.0
    mass: float = 0.0
    next_words: int = 0
    next_score: float = 0.0


class Draft(_Part):
    """The sentences that a worker chose from its subtask.

    Attributes:
        round: 1, 2 or 3.
        title: Heading of the whole digest.
        words: Longest digest, in words.
        target: Words that all drafts together should have.
        picks: In the order of the text.
        headings: Every heading of the subtask, in order.
        measure: Lengths and scores.
        source_words: Words of the whole subtask.
    """

    round: Round
    title: str
    words: int
    target: int
    picks: list[Pick]
    headings: list[Heading]
    measure: Measure
    source_words: int


class Compiled(_Part):
    """One part of the compilation, with what a reviewer must know of the other nine.

    Attributes:
        draft: The part itself.
        measures: Of all parts, in order.
        repeats: Places of picks that say what an earlier part says already.
    """

    draft: Draft
    measures: list[Measure]
    repeats: list[int]

    @property
    def round(self) -> int:
        """1, 2 or 3."""
        return self.draft.round


Verdict = Literal["fine", "shorter", "longer", "cover", "repeats"]


class Feedback(_Part):
    """The reviewer's demands on the next draft.

    Attributes:
        round: The round that was reviewed; the next draft belongs to the one after it.
        verdict: The main point.
        note: The same as a sentence, for people.
        budget: Words that the next draft may have, headings included.
        cover: Headings (from 0, as in `Draft.headings`) that the next draft should have.
        drop: Places of sentences that it must not have.
    """

    round: Round
    verdict: Verdict
    note: str
    budget: int
    cover: list[int]
    drop: list[int]


class Result(_Part):
    """One finished tenth of the digest.

    Attributes:
        title: Heading of the whole digest.
        words: Longest digest, in words.
        picks: In the order of the text.
        headings: Every heading of the subtask, in order.
        verdicts: The reviewer's verdicts after the first and second round.
        source_words: Words of the whole subtask.
    """

    title: str
    words: int
    picks: list[Pick]
    headings: list[Heading]
    verdicts: list[Verdict]
    source_words: int
