"""A triage agent hands a customer over to another agent, who asks the customer a question.

python -m examples.runs.complaints
"""

from __future__ import annotations

from callboard.groupchat import ConversableAgent
from callboard.runs import ConsoleProcessor, RunResponse, ask_user, process_run_response, run
from examples.models import call, in_turn, make_model

APOLOGY = "I'm sorry to hear that. We will make the order faster."


def begin() -> RunResponse:
    sales_agent = ConversableAgent("sales_agent", llm_config=make_model("What would you like to buy?"))
    complaints_agent = ConversableAgent(
        "complaints_agent",
        llm_config=make_model(
            in_turn(call("ask_customer", question="Hi, what is your complaint?"), APOLOGY),
        ),
    )
    triage_agent = ConversableAgent(
        "triage_agent", llm_config=make_model(in_turn(call("transfer_to_complaints")))
    )

    @complaints_agent.register_for_llm(description="Asks the customer a question.")
    async def ask_customer(question: str) -> str:
        return str(await ask_user(question))

    @triage_agent.register_for_llm(description="Hands customers over who want to buy something.")
    def transfer_to_sales() -> ConversableAgent:
        return sales_agent

    @triage_agent.register_for_llm(description="Hands customers over who have a complaint.")
    def transfer_to_complaints() -> ConversableAgent:
        return complaints_agent

    return run(triage_agent, message="I have a complaint about my order.")


if __name__ == "__main__":
    process_run_response(begin(), ConsoleProcessor())
