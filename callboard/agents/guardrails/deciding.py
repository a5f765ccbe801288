"""People who decide where a guardrail asks."""

from __future__ import annotations

import hashlib
from typing import Final

from callboard.agents.errors import NobodyToAskError
from callboard.asking import Question, ask_person, can_ask
from callboard.runtime.steps import NumberedStep, running_context
from callboard.tools.answers import CONSENT
from callboard.tools.approval import Consent

from .verdicts import Asks, Decision, Passed, Refused

DIGITS: Final = 32  # of the hash of a question


async def decided_by_person(agent: str, asks: Asks) -> Decision:
    """What a person says: yes, or no and why.

    Args:
        agent: Whose guardrail asks.
        asks: The question.

    Raises:
        NobodyToAskError: Nobody can be asked here (a RuntimeError).
    """
    digest = hashlib.sha256(asks.question.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]
    step = NumberedStep.begin(f"guardrail-asks:{digest}")
    context = running_context()
    if not can_ask(context):
        raise NobodyToAskError(agent, asks.question)
    question = Question(
        text=asks.question,
        name="guardrail" if step is None else step.full_name,
        answer_type=Consent,
        details={"kind": CONSENT, "agent": agent},
    )
    answer = await ask_person(question, context)
    return Passed() if answer.approved else Refused(answer.reason or "A person has refused it.")
