"""The work of each agent of the digest job, as pure functions of messages.

Splitter: `split`. Worker: `write`. Compiler: `gather`. Reviewer: `review` after the first and second round,
`conclude` after the third. `rehearse` plays the whole job without a runtime: whatever the processes and
crashes are, a run must end with what it returns.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import pairwise

from .markdown import Passage, passages
from .messages import (
    PARTS,
    ROUNDS,
    Compiled,
    Document,
    Draft,
    Feedback,
    Measure,
    Requirements,
    Result,
    Section,
    Subtask,
    Verdict,
)
from .scoring import REPEATED, choose, weigh
from .text import count_words, similarity, terms

SHORTEST = 100
"""A digest of a short text may have this many words even where that is all of it."""


def split(requirements: Requirements) -> list[Subtask]:
    """Split the documents into ten subtasks.

    The parts have about the same number of sentences; a cut moves to a heading that is near.

    Args:
        requirements: The job.

    Returns:
        Exactly ten, in order. With fewer sentences than parts, some hold no text.
    """
    read = _passages(requirements.documents)
    texts = [text for passage in read for text in passage.sentences]
    title_words = count_words(requirements.title)
    total = sum(map(count_words, texts))
    target = max(0, min(requirements.words, max(SHORTEST, total // 3)) - title_words)
    weights = weigh(texts)
    return [
        Subtask(
            job=requirements.job,
            number=number,
            title=requirements.title,
            words=requirements.words,
            target=target,
            terms=weights,
            sections=sections,
            pace=requirements.pace,
        )
        for number, sections in enumerate(_parts(read, texts), start=1)
    ]


def write(subtask: Subtask, feedback: Feedback | None = None) -> Draft:
    """Choose the best sentences of a subtask.

    Args:
        subtask: The text.
        feedback: The reviewer's demands; None for the first draft, which is half as long again as its share,
            so that the reviewer has something to compare.

    Returns:
        The draft, never longer than the budget.
    """
    budget = feedback.budget if feedback else subtask.target * 3 // (PARTS * 2)
    choice = choose(
        subtask.sections,
        subtask.terms,
        budget,
        feedback.cover if feedback else (),
        feedback.drop if feedback else (),
    )
    return Draft(
        job=subtask.job,
        number=subtask.number,
        round=feedback.round + 1 if feedback else 1,
        title=subtask.title,
        words=subtask.words,
        target=subtask.target,
        picks=choice.picks,
        headings=choice.headings,
        measure=choice.measure,
        source_words=sum(count_words(text) for section in subtask.sections for text in section.sentences),
    )


def collect(drafts: Sequence[Draft], draft: Draft) -> list[Draft]:
    """Add a draft to those of its round; a part that comes again replaces the former.

    Returns:
        The drafts of the round so far, in the order of the text.
    """
    others = [one for one in drafts if one.round == draft.round and one.number != draft.number]
    return sorted([*others, draft], key=lambda one: one.number)


def gather(drafts: Sequence[Draft]) -> list[Compiled]:
    """Compile the drafts of one round.

    Args:
        drafts: In the order of the text.

    Returns:
        One message per part, or none while a part is missing: every part is judged against all the others, so
        that the outcome does not depend on who was first.
    """
    if len(drafts) < PARTS:
        return []
    measures = [draft.measure for draft in drafts]
    said: list[list[str]] = []
    compiled: list[Compiled] = []
    for draft in drafts:
        rows = [terms(pick.text) for pick in draft.picks]
        repeats = [pick.place for pick, row in zip(draft.picks, rows, strict=True) if _is_said(row, said)]
        said += rows
        compiled.append(
            Compiled(job=draft.job, number=draft.number, draft=draft, measures=measures, repeats=repeats),
        )
    return compiled


def review(compiled: Compiled, cover: Collection[int] = (), drop: Collection[int] = ()) -> Feedback:
    """Judge a part of the compilation by length, repetition and coverage of headings.

    Args:
        compiled: The part, in the first or second round.
        cover: Headings that were asked for already.
        drop: Sentences that were refused already.

    Returns:
        What the next draft should be.
    """
    draft = compiled.draft
    budgets = _budgets(compiled)
    budget = budgets[compiled.number - 1]
    asked = _missing_heading(draft, budget, cover)
    verdict, note = _verdict(compiled, budget, asked)
    return Feedback(
        job=compiled.job,
        number=compiled.number,
        round=compiled.round,
        verdict=verdict,
        note=note,
        budget=budget,
        cover=sorted({*cover, *asked}),
        drop=sorted({*drop, *compiled.repeats}),
    )


def conclude(compiled: Compiled, verdicts: Sequence[Verdict]) -> Result:
    """Turn the third draft of a part into its result, without the sentences that an earlier part has."""
    draft = compiled.draft
    return Result(
        job=draft.job,
        number=draft.number,
        title=draft.title,
        words=draft.words,
        picks=[pick for pick in draft.picks if pick.place not in compiled.repeats],
        headings=draft.headings,
        verdicts=list(verdicts),
        source_words=draft.source_words,
    )


def rehearse(requirements: Requirements) -> list[Result]:
    """Play the whole job in this process, without a runtime and without waiting.

    Returns:
        The ten results in order.
    """
    subtasks = split(requirements)
    feedback: list[list[Feedback]] = [[] for _ in subtasks]
    compiled: list[Compiled] = []
    for number in range(1, ROUNDS + 1):
        drafts: list[Draft] = []
        for subtask, said in zip(subtasks, feedback, strict=True):
            drafts = collect(drafts, write(subtask, said[-1] if said else None))
        compiled = gather(drafts)
        if number < ROUNDS:
            for part, said in zip(compiled, feedback, strict=True):
                said.append(review(part, said[-1].cover if said else (), said[-1].drop if said else ()))
    return [
        conclude(part, [one.verdict for one in said]) for part, said in zip(compiled, feedback, strict=True)
    ]


def allocate(measures: Sequence[Measure], target: int) -> list[int]:
    """Share out words among the parts by what their best sentences are worth.

    Args:
        measures: Of all parts.
        target: Words to share out.

    Returns:
        One budget per part, together at most the target; 0 for a part whose best sentence cannot be afforded.
    """
    active = [at for at, measure in enumerate(measures) if measure.available]
    budgets = [0] * len(measures)
    while active:
        shares = _poured(measures, active, target)
        poor = [at for at in active if shares[at] < measures[at].need]
        if not poor:
            return shares
        active.remove(min(poor, key=lambda at: (measures[at].best, -at)))
    return budgets


def top_up(measures: Sequence[Measure], target: int) -> list[int]:
    """Give the words that the drafts left to the parts whose next sentence is worth most.

    Returns:
        One budget per part, together at most the target; never less than the part has used.
    """
    budgets = [measure.used for measure in measures]
    left = target - sum(budgets)
    waiting = [at for at, measure in enumerate(measures) if measure.next_words]
    for at in sorted(waiting, key=lambda at: (-measures[at].next_score, at)):
        if measures[at].next_words <= left:
            budgets[at] += measures[at].next_words
            left -= measures[at].next_words
    return budgets


def _budgets(compiled: Compiled) -> list[int]:
    used = sum(measure.used for measure in compiled.measures)
    if compiled.round > 1 and used <= compiled.draft.target:
        return top_up(compiled.measures, compiled.draft.target)
    return allocate(compiled.measures, compiled.draft.target)


def _poured(measures: Sequence[Measure], active: Sequence[int], target: int) -> list[int]:
    """Words by weight; what a part cannot use flows on to the others."""
    shares = [0] * len(measures)
    mass = sum(round(measures[at].mass * 1_000) for at in active) or 1
    # Half by equal shares, so that no part of the text falls silent for being modest.
    weight = {at: mass + len(active) * round(measures[at].mass * 1_000) for at in active}
    open_parts, left = list(active), target
    while open_parts:
        total = sum(weight[at] for at in open_parts)
        full = [at for at in open_parts if measures[at].available * total <= left * weight[at]]
        if not full:
            for at in open_parts:
                shares[at] = left * weight[at] // total
            return shares
        for at in full:
            shares[at] = measures[at].available
            left -= shares[at]
            open_parts.remove(at)
    return shares


def _missing_heading(draft: Draft, budget: int, asked: Collection[int]) -> list[int]:
    """The weightiest heading without a sentence, unless it is small or was asked for before."""
    covered = {(pick.document, pick.heading) for pick in draft.picks}
    open_headings = [
        at
        for at, heading in enumerate(draft.headings)
        if heading.words and at not in asked and (heading.document, heading.title) not in covered
    ]
    total = sum(heading.words for heading in draft.headings)
    best = max(open_headings, key=lambda at: (draft.headings[at].words, -at), default=None)
    if best is None or not budget or draft.headings[best].words * 5 < total:
        return []
    return [best]


def _verdict(compiled: Compiled, budget: int, asked: Sequence[int]) -> tuple[Verdict, str]:
    """The main point, and all points as a line for people."""
    draft, measure = compiled.draft, compiled.draft.measure
    points: list[tuple[Verdict, str]] = []
    if compiled.repeats:
        points.append(
            ("repeats", f"{len(compiled.repeats)} of {len(draft.picks)} sentences repeat an earlier part")
        )
    if measure.used > budget:
        points.append(("shorter", f"{measure.used} words, {budget} would do"))
    headings = [draft.headings[at] for at in asked]
    points.extend(("cover", f"nothing yet on “{one.title or one.document}”") for one in headings)
    if measure.next_words and budget >= measure.used + measure.next_words:
        points.append(("longer", f"{measure.used} words, there is room for {budget}"))
    if not points:
        return "fine", f"{measure.used} words, fine"
    return points[0][0], "; ".join(note for _, note in points)


def _is_said(row: Sequence[str], said: Sequence[Sequence[str]]) -> bool:
    return any(similarity(row, other) >= REPEATED for other in said)


def _passages(documents: Sequence[Document]) -> list[Passage]:
    """All passages; documents that share a title are told apart by their names."""
    read = [(document.name, passages(document)) for document in documents]
    titles = Counter(found[0].document for _, found in read if found)
    for name, found in read:
        for passage in found:
            if titles[passage.document] > 1 and passage.document != name:
                passage.document = f"{passage.document} ({name})"
    return [passage for _, found in read for passage in found]


def _parts(read: Sequence[Passage], texts: Sequence[str]) -> list[list[Section]]:
    starts: list[int] = []
    at, count = 0, len(texts)
    said = _said(texts)
    for passage in read:
        starts.append(at)
        at += len(passage.sentences)
    cuts = [0, *(_cut(starts, count, part) for part in range(1, PARTS)), count]
    return [
        [
            section
            for passage, start in zip(read, starts, strict=True)
            if (section := _slice(passage, start, low, high, said))
        ]
        for low, high in pairwise(cuts)
    ]


def _cut(starts: Sequence[int], count: int, part: int) -> int:
    """The end of a part: its share, or the nearest heading not further than a quarter of a share."""
    ideal = count * part // PARTS
    reach = count // (PARTS * 4)
    near = [start for start in starts if abs(start - ideal) <= reach]
    return min(near, key=lambda start: (abs(start - ideal), start), default=ideal)


def _said(texts: Sequence[str]) -> frozenset[int]:
    """Places of sentences that stand word for word further up."""
    first: dict[str, int] = {}
    return frozenset(at for at, text in enumerate(texts) if first.setdefault(text.casefold(), at) != at)


def _slice(passage: Passage, start: int, low: int, high: int, said: Collection[int]) -> Section | None:
    first, last = max(low - start, 0), min(high - start, len(passage.sentences))
    if first >= last:
        return None
    return Section(
        document=passage.document,
        title=passage.title,
        start=start + first,
        sentences=passage.sentences[first:last],
        leads=[lead - first for lead in passage.leads if first <= lead < last],
        depends=[at - first for at in passage.depends if first <= at < last],
        said=[at - first for at in range(first, last) if start + at in said],
        opens=first == 0,
    )
