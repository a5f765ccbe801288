"""Two comedians in turn, until one has heard enough.

python -m examples.runs.comedians
"""

from __future__ import annotations

from callboard.groupchat import ConversableAgent
from callboard.runs import ConsoleProcessor, RunResponse, process_run_response, run
from examples.models import in_turn, make_model

SHOW = "Your name is {name} and you are a comedian in a two-person comedy show."


def begin() -> RunResponse:
    jack = ConversableAgent(
        "Jack",
        system_message=SHOW.format(name="Jack"),
        llm_config=make_model(
            in_turn(
                "What do you call a fake noodle? An impasta.",
                "Why couldn't the bicycle stand up by itself? It was two tired.",
            )
        ),
        # Jack ends the show when Emma says FINISH.
        is_termination_msg=lambda message: "FINISH" in message["text"],
    )
    emma = ConversableAgent(
        "Emma",
        system_message=SHOW.format(name="Emma")
        + " Say the word FINISH ONLY AFTER you've heard 2 of Jack's jokes.",
        llm_config=make_model(
            in_turn(
                "Haha, nice one! What do you call a belt made of watches? A waist of time.",
                "FINISH",
            )
        ),
    )
    return run(jack, emma, message="Tell me a joke.", max_turns=20)


if __name__ == "__main__":
    process_run_response(begin(), ConsoleProcessor())
