"""A run whose model calls two functions at once; the process dies when the first of them is done and the second is not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from callboard import App
from callboard.groupchat import ContextVariables, ConversableAgent
from callboard.memory.llm_messages import FunctionCall, FunctionExecutionResultMessage, LLMMessage
from callboard.models import ReplayChatCompletionClient
from callboard.runs import run_team

NOTES = Path(os.environ.get("NOTES", "notes.txt"))


def note(line: str) -> None:
    """A line for what was done, which outlives the process."""
    with NOTES.open("a") as file:
        file.write(f"{line}\n")


async def fast() -> str:
    """Done at once."""
    note("fast")
    return "fast done"


async def slow() -> str:
    """Ends its process, the first time, when the other call must have been recorded."""
    is_first = "slow" not in NOTES.read_text().split()
    note("slow")
    if is_first:
        await asyncio.sleep(1.0)  # beside the record of `fast`, which takes a few ms
        os.kill(os.getpid(), 9)
    return "slow done"


async def count(context_variables: ContextVariables) -> str:
    """Changes a variable; ends its process when the change of the call before it is recorded."""
    number = int(context_variables.get("count", 0)) + 1
    if number == 2 and "died" not in NOTES.read_text().split():
        note("died")
        os.kill(os.getpid(), 9)
    context_variables["count"] = number
    note(f"count {number}")
    return str(number)


def answer(messages: Sequence[LLMMessage]) -> str | list[FunctionCall]:
    """Calls two functions, then says what came of them."""
    last = messages[-1]
    if isinstance(last, FunctionExecutionResultMessage):
        return " and ".join(result.content for result in last.content)
    names = str(last.content).split()
    return [FunctionCall(id=str(number), name=name, arguments="{}") for number, name in enumerate(names)]


clerk = ConversableAgent(
    "clerk",
    llm_config=ReplayChatCompletionClient([], default=answer),
    function_map={"fast": fast, "slow": slow, "count": count},
    human_input_mode="NEVER",
)
team = run_team(clerk, name="calls", max_turns=1)
app = App("killed-calls")
app.team(team)
