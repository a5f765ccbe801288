"""One agent with a function, which it executes itself.

python -m examples.runs.with_functions
"""

from __future__ import annotations

from callboard.groupchat import ConversableAgent
from callboard.runs import ConsoleProcessor, RunResponse, process_run_response, run
from examples.models import call, in_turn, make_model


def meaning_of_life() -> str:
    """Returns the meaning of life."""
    return "42"


def begin() -> RunResponse:
    model = make_model(in_turn("thinking about it...", call("meaning_of_life"), "42"))
    alice = ConversableAgent("Alice", llm_config=model)
    return run(
        alice,
        message="What is the meaning of life?",
        tools=[meaning_of_life],
        is_termination_message=lambda text: text == "42",
        max_turns=10,
    )


if __name__ == "__main__":
    response = begin()
    process_run_response(response, ConsoleProcessor())
    print("Summary:", response.summary)
