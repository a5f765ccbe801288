"""Answers of the model of a MagenticOneGroupChat."""

from __future__ import annotations

import json


def ledger(
    speaker: str = "ann",
    *,
    done: bool = False,
    progress: bool = True,
    loop: bool = False,
    says: str = "Do it.",
    reason: str = "because",
) -> str:
    """A progress ledger."""
    answers = {
        "is_request_satisfied": done,
        "is_in_loop": loop,
        "is_progress_being_made": progress,
        "next_speaker": speaker,
        "instruction_or_question": says,
    }
    return json.dumps({field: {"reason": reason, "answer": answer} for field, answer in answers.items()})
