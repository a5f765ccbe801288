"""One agent that thinks aloud until it says the answer.

python -m examples.runs.single_agent
"""

from __future__ import annotations

from callboard.groupchat import ConversableAgent
from callboard.runs import ConsoleProcessor, RunResponse, process_run_response, run
from examples.models import in_turn, make_model


def begin() -> RunResponse:
    alice = ConversableAgent("Alice", llm_config=make_model(in_turn("thinking about it...", "42")))
    return run(
        alice,
        message="What is the meaning of life?",
        is_termination_message=lambda text: text == "42",
        max_turns=10,
    )


if __name__ == "__main__":
    response = begin()
    process_run_response(response, ConsoleProcessor())
    print("Summary:", response.summary)
