"""What the model is asked and how its answers are read, as pure functions: the writer's part and the reviewer's.

The rules of `steps` go on deciding which sentences there are, and how long a draft may be. The model puts the sentences
into plain words and says what could be better; an answer, or a line of one, that can't be used changes nothing.
"""

from __future__ import annotations

import re

from callboard.models import LLMMessage, SystemMessage, UserMessage

from .messages import Draft, Feedback
from .text import count_words

WRITER = SystemMessage(
    content="You put sentences of a document into short, plain words. Keep every fact and name, and add none. "
    "No line may get longer. Answer with the same numbered lines, and with nothing else."
)
REVIEWER = SystemMessage(
    content="You review a part of a digest. Say in one short sentence what its wording should do better."
)
LONGEST_NOTE = 300  # characters

_LINE = re.compile(r"^[ *_-]*(\d+)[.):][ *_]*(.+?)[ *_]*$", re.MULTILINE)


def ask_writer(draft: Draft, feedback: Feedback | None) -> list[LLMMessage]:
    """The request to put the sentences of a draft into plain words.

    Args:
        draft: With the sentences as the document has them.
        feedback: What was said about the draft before; None for the first.
    """
    said = f"\n\nA reviewer said of your last draft: {feedback.note}" if feedback else ""
    return [WRITER, UserMessage(content=_numbered(draft) + said, source="worker")]


def reworded(draft: Draft, answer: str) -> Draft:
    """A draft in the model's words.

    A line that is missing, empty or longer than the sentence leaves the sentence as it was, so that the draft stays within
    its budget whatever the model says.
    """
    lines = {int(number): text for number, text in _LINE.findall(answer)}
    picks = []
    saved = 0
    for number, pick in enumerate(draft.picks, start=1):
        less = count_words(pick.text) - count_words(text := lines.get(number, pick.text))
        if less < 0 or not count_words(text):
            picks.append(pick)
            continue
        saved += less
        picks.append(pick.model_copy(update={"text": text}))
    measure = draft.measure.model_copy(update={"used": draft.measure.used - saved})
    return draft.model_copy(update={"picks": picks, "measure": measure})


def ask_reviewer(draft: Draft) -> list[LLMMessage]:
    """The request to say what a draft should do better."""
    return [REVIEWER, UserMessage(content=_numbered(draft), source="reviewer")]


def annotated(feedback: Feedback, answer: str) -> Feedback:
    """Feedback with the model's remark behind the rules' own; the demands stay as they are."""
    remark = " ".join(answer.split())[:LONGEST_NOTE]
    return feedback.model_copy(update={"note": f"{feedback.note}. {remark}"}) if remark else feedback


def _numbered(draft: Draft) -> str:
    return "\n".join(f"{number}. {pick.text}" for number, pick in enumerate(draft.picks, start=1))
