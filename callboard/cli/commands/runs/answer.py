"""`callboard runs answer`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from callboard.cli.asking_teams import user_name
from callboard.cli.exits import FAILED, CommandFailed, bad_use
from callboard.cli.numbers import unmarked
from callboard.cli.options import AsJson, Namespace, Url, split_names
from callboard.cli.output import duration, print_json, say, say_facts, say_table, to_json
from callboard.cli.sessions import run, runs_at

if TYPE_CHECKING:
    from callboard.input_request import InputRequest
    from callboard.runtime.runtime import RedisAgentRuntime


NAMED = 5  # questions that an error names


def answer(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODULE:APP] [ID] [VALUE]",
            help="The app, for its namespace; a question, by the beginning of its id or the agent that asks; the answer.",
        ),
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who answers. Default: the user of this system.")
    ] = None,
    url: Url = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Answer a question that a handler waits for. Without an id, list the open ones; without an answer, show one.

    For a call of a tool that has to be allowed the answer is yes, no, "no: the reason", or other arguments as a JSON object;
    where there are choices, one of them or its number; where a text is asked for, the text; else JSON. The first answer
    counts. What begins with a dash and is no number comes behind `--`.

      callboard runs answer shop:app
      callboard runs answer shop:app 8d0f yes
      callboard runs answer shop:app orders.desk/customer-1 yes
      callboard runs answer --namespace shop 8d0f "no: ask for a receipt first" --by ada

    Exit codes: 0 answered, or shown; 1 there is no such question, it was answered before, has expired, was put to somebody
    else, or this is no answer to it; 2 wrong use, 3 no server.
    """
    target, rest = split_names(unmarked(names))
    if len(rest) > 2:
        bad_use("give the answer as one word, or in quotes")

    async def work() -> None:
        async with runs_at(target, url, namespace) as runtime:
            if not rest:
                _list(await runtime.inputs.list(), as_json)
                return
            question = await _named(runtime, rest[0])
            if len(rest) == 1:
                _show(question, as_json)
            else:
                await _answer(runtime, question, rest[1], user_name() if by is None else by)

    run(work())


async def _answer(runtime: RedisAgentRuntime, question: InputRequest, text: str, by: str) -> None:
    from callboard.tools.answers import answer_of

    value = answer_of(text, question.id, question.choices, question.schema, question.details)
    await runtime.inputs.answer(question.id, value, by=by)
    say(f"answered by {by or 'nobody'}: {question.agent} goes on")


async def _named(runtime: RedisAgentRuntime, name: str) -> InputRequest:
    """The question with this id, or the only open one whose id begins with it, or which this agent asks."""
    from callboard.errors import InputRequestUnknownError

    questions = await runtime.inputs.list()
    near = [one for one in questions if one.id.startswith(name) or str(one.agent) == name]
    if len(near) == 1:
        return near[0]
    if near:
        ids = ", ".join(one.id for one in near[:NAMED])
        raise CommandFailed(
            f"{len(near)} open questions are named by {name!r}: take the id of one, {ids}", FAILED
        )
    try:
        return await runtime.inputs.get(name)
    except InputRequestUnknownError as error:
        raise CommandFailed(
            f"there is no open question {name!r}: `callboard runs answer` lists them", FAILED
        ) from error


def _list(questions: list[InputRequest], as_json: bool) -> None:
    if as_json:
        print_json(questions)
    elif not questions:
        say("no open questions")
    else:
        header = ("ID", "AGENT", "ASKED", "TO", "QUESTION")
        say_table(header, [_row(question) for question in questions], optional=("TO", "ASKED"))


def _row(question: InputRequest) -> tuple[object, ...]:
    since = f"{duration(max(0.0, time.time() - question.asked))} ago"
    return (question.id, question.agent, since, ", ".join(question.to) or None, question.question)


def _show(question: InputRequest, as_json: bool) -> None:
    from callboard.runtime.run_paths import id_in
    from callboard.tools.answers import how_to_answer

    if as_json:
        print_json(question)
        return
    details = {
        name: str(value) if isinstance(value, str) else to_json(value)
        for name, value in question.details.items()
    }
    say(question.question)
    say_facts(
        {
            "id": question.id,
            "agent": str(question.agent),
            "run": id_in(question.run_path or "") or "-",
            "status": question.status.value,
            "to": ", ".join(question.to) or "anybody",
            **details,
            "answer": how_to_answer(question.choices, question.schema, question.details)
            if question.status.value == "open"
            else to_json(question.answer),
        }
    )
