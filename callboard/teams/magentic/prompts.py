"""What the orchestrator of a MagenticOneGroupChat asks its model. The fields are AutoGen's, the words are not."""

from __future__ import annotations

from typing import Final

FACTS: Final = """You will direct a team that works on a request. Before the work begins, take stock of what is known.

The request:

{task}

Write a fact sheet with exactly these four headings:

1. GIVEN OR VERIFIED FACTS: what the request itself states; there may be nothing.
2. FACTS TO LOOK UP: what has to be found out, and where, naming the sources that the request mentions.
3. FACTS TO DERIVE: what follows from other facts by reasoning, calculation or simulation.
4. EDUCATED GUESSES: what you remember or suppose.

Facts are names, dates, numbers and the like. Write no plan and no next steps yet.
"""

PLAN: Final = """Thank you. This is the team:

{team}

Write a short plan for the request as a list, with what is known and what is not. Use only those members who are needed."""

LEDGER: Final = """The team works on this request:

{task}

The members of the team:

{team}

What is known so far:

{facts}

The plan, to be followed as far as possible:

{plan}
"""

PROGRESS: Final = """Remember the request:

{task}

And the team:

{team}

Judge how the work stands, each time with a reason:

- is_request_satisfied: has the request been carried out completely and with success?
- is_in_loop: does the team repeat the same steps or get the same answers, also over several turns?
- is_progress_being_made: does the work go forward? True at the beginning; false where it is stuck or something
  indispensable can't be had, such as a file that can't be read.
- next_speaker: who should speak next, one of: {names}
- instruction_or_question: what you say to that member, addressed to them, with all they need to know.

Answer with one JSON object of this form, and with nothing before or after it:

{{
    "is_request_satisfied": {{"reason": string, "answer": boolean}},
    "is_in_loop": {{"reason": string, "answer": boolean}},
    "is_progress_being_made": {{"reason": string, "answer": boolean}},
    "next_speaker": {{"reason": string, "answer": string (one of: {names})}},
    "instruction_or_question": {{"reason": string, "answer": string}}
}}
"""

FACTS_UPDATE: Final = """Remember the request:

{task}

The work does not get on, but something may have been learned. Rewrite the fact sheet: add what is new, move guesses that
turned out to be right to the verified facts, and add or change at least one educated guess, with your reason.

The fact sheet so far:

{facts}
"""

PLAN_UPDATE: Final = """Say in a few words why the work got stuck. Then write a new plan as a short list, which avoids
these mistakes and has hints against them. Nobody but this team can take part:

{team}
"""

FINAL_ANSWER: Final = """The work on this request is over:

{task}

The messages above are the conversation of the team. Answer the request with what was found out, and address the person
who made it.
"""
