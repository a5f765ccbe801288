"""Measures how well small models use tools: scripts/bench models [--model NAME] [--mode MODE] [--verbose].

Twenty fixed tasks, each in native, lenient and schema mode on two small real models. A task is a conversation: the
question, calls of tools and their results, at most five answers of the model. It is right when the last one is a text that
holds what was asked for, and a loop when there is none, or when a call was made again that had its result already.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from callboard.memory.llm_messages import LLMMessage
from callboard.models import (
    AssistantMessage,
    FunctionCall,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    ModelInfo,
    SystemMessage,
    UserMessage,
)
from callboard.models.errors import ModelError
from callboard.models.openai import OpenAIChatCompletionClient

from .small_models import NAMES, SMOLLM2, SmallModel, install

MODES: Final = ("native", "lenient", "schema")
MOST_ANSWERS: Final = 5
MOST_TOKENS: Final = 64  # of one answer


def _tool(name: str, description: str, /, **parameters: str) -> dict[str, Any]:
    properties = {key: {"type": kind} for key, kind in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    return {"name": name, "description": description, "parameters": schema}


TOOLS: Final = (
    _tool("get_weather", "Get the weather in a city.", city="string"),
    _tool("get_price", "Get the price of a product in euros.", product="string"),
    _tool("get_phone", "Get the phone number of a person.", name="string"),
    _tool("get_stock", "Get how many of a product are in stock.", product="string"),
)
RESULTS: Final = {
    "get_weather": {"oslo": "snow, -4 degrees", "rome": "sunny, 31 degrees", "paris": "rain, 12 degrees"},
    "get_price": {"lamp": "49 euros", "chair": "85 euros", "desk": "230 euros"},
    "get_phone": {"ada": "555-0147", "bob": "555-0199", "grace": "555-0123"},
    "get_stock": {"lamp": "17 in stock", "chair": "0 in stock", "desk": "6 in stock"},
}
# The question, and what the answer has to hold: one of each group.
TASKS: Final[Sequence[tuple[str, Sequence[Sequence[str]]]]] = (
    ("What is the weather in Oslo?", [["snow", "-4"]]),
    ("What is the weather like in Rome today?", [["sunny", "31"]]),
    ("Do I need an umbrella in Paris?", [["rain", "yes"]]),
    ("How many degrees is it in Paris?", [["12"]]),
    ("Is it warm in Rome?", [["31", "sunny", "yes"]]),
    ("How much is the lamp?", [["49"]]),
    ("What does a chair cost?", [["85"]]),
    ("Tell me the price of the desk.", [["230"]]),
    ("Can I buy a desk for 300 euros? Look up its price.", [["230", "yes"]]),
    ("What is Ada's phone number?", [["0147"]]),
    ("I need to call Bob. What number do I dial?", [["0199"]]),
    ("Find the phone number of Grace.", [["0123"]]),
    ("How many lamps are in stock?", [["17"]]),
    ("Are there any chairs left in stock?", [["0 ", "no", "none"]]),
    ("How many desks do we have?", [["6", "six"]]),
    ("What is the weather in Oslo and in Rome?", [["snow", "-4"], ["sunny", "31"]]),
    ("What do the lamp and the chair cost?", [["49"], ["85"]]),
    ("What does the desk cost, and how many are in stock?", [["230"], ["6", "six"]]),
    ("Say hello.", [["hello", "hi"]]),
    ("What is the capital of France?", [["paris"]]),
)


@dataclass(frozen=True, slots=True)
class Tried:
    """How a task went.

    Attributes:
        is_right: the answer holds what was asked for.
        has_looped: a call was made again, or no answer came.
        requests: that were made.
        answer: the last one.
    """

    is_right: bool
    has_looped: bool
    requests: int
    answer: str


def result_of(call: FunctionCall) -> FunctionExecutionResult:
    """What a tool says."""
    try:
        arguments = json.loads(call.arguments)
        wanted = " ".join(str(value) for value in arguments.values()).lower()
    except (ValueError, AttributeError):
        wanted = ""
    known = RESULTS.get(call.name, {})
    found = next((known[name] for name in known if name in wanted), None)
    text = found or f"unknown; known are {', '.join(known)}"
    return FunctionExecutionResult(content=text, name=call.name, call_id=call.id, is_error=found is None)


async def attempt(
    client: OpenAIChatCompletionClient, question: str, wanted: Sequence[Sequence[str]]
) -> Tried:
    """One task."""
    messages: list[LLMMessage] = [
        SystemMessage(
            content="You help with questions. Use the tools to look things up. Answer in one sentence."
        ),
        UserMessage(content=question, source="user"),
    ]
    seen: set[tuple[str, str]] = set()
    content: object = ""
    has_repeated = False
    for number in range(1, MOST_ANSWERS + 1):
        try:
            result = await client.create(messages, tools=TOOLS)
        except ModelError as error:
            return Tried(False, False, number, f"{type(error).__name__}: {error}")
        content = result.content
        if isinstance(content, str):
            is_right = all(any(one in content.lower() for one in group) for group in wanted)
            return Tried(is_right and not _is_call(content), has_repeated, number, content)
        calls = {(call.name, call.arguments) for call in content}
        has_repeated, seen = has_repeated or bool(calls & seen), seen | calls
        messages.append(AssistantMessage(content=content, source="assistant"))
        messages.append(FunctionExecutionResultMessage(content=[result_of(call) for call in content]))
    return Tried(False, True, MOST_ANSWERS, str(content))


def _is_call(text: str) -> bool:
    return '"arguments"' in text or "<tool_call>" in text


async def measure(url: str, model: str, mode: Any, verbose: bool) -> str:
    """All tasks in one mode; returns the row of the table."""
    # SmolLM2's template leaves the tools of the API out, so it is told of them in words.
    takes_tools = mode == "native" or model != SMOLLM2
    info = ModelInfo(
        vision=False, function_calling=takes_tools, json_output=True, family="unknown", structured_output=True
    )
    client = OpenAIChatCompletionClient(
        model,
        base_url=url,
        model_info=info,
        tool_mode=mode,
        temperature=0.0,
        seed=1,
        max_tokens=MOST_TOKENS,
        include_name_in_message=False,
    )
    began, tried = time.perf_counter(), []
    async with client:
        for question, wanted in TASKS:
            one = await attempt(client, question, wanted)
            tried.append(one)
            if verbose:
                marks = f"{'right' if one.is_right else 'wrong'}{' loop' if one.has_looped else ''}"
                print(
                    f"  {marks:<11}{one.requests}  {question} -> {one.answer!r}", file=sys.stderr, flush=True
                )
    right, loops = sum(one.is_right for one in tried), sum(one.has_looped for one in tried)
    usage, seconds = client.total_usage(), time.perf_counter() - began
    return (
        f"| {model} | {mode} | {right} of {len(TASKS)} | {loops} | {sum(one.requests for one in tried)} "
        f"| {usage.total_tokens:,} | {seconds:.0f} s |"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the measurements; returns the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/bench models")
    parser.add_argument("--model", action="append", choices=NAMES, help="only this one")
    parser.add_argument("--mode", action="append", choices=MODES, help="only this one")
    parser.add_argument("--verbose", action="store_true", help="every task, on stderr")
    options = parser.parse_args(arguments)
    install()
    print("| model | mode | right | loops | answers | tokens | time |\n|---|---|---|---|---|---|---|")
    for name in options.model or NAMES:
        with SmallModel(name) as server:
            for mode in options.mode or MODES:
                print(asyncio.run(measure(server.url, name, mode, options.verbose)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
