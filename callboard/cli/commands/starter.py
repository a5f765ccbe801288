"""`callboard init` and `callboard demo`: a small app to begin with, and a real job to look at."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from callboard.cli.exits import bad_use
from callboard.cli.options import AsJson, Url, duration
from callboard.cli.output import say
from callboard.cli.templates import GITIGNORE, TEMPLATES, TemplateName, examples_folder
from callboard.foundation.texts import shell_line


def init(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Made when it does not exist.")] = Path(),
    template: Annotated[TemplateName, typer.Option(help="What to begin with.")] = TemplateName.COUNTER,
) -> None:
    """Write a small app that is ready to run.

    That is app.py, a README with the commands to try, and a .gitignore. Nothing is overwritten.

    Templates: `counter`, an agent with a state, and `assistant`, an agent that thinks: with a conversation that
    survives crashes, a tool, long-term memory where callboard[memory,embeddings] is installed, and a test. It
    runs at once with a scripted model; OPENAI_API_KEY makes it a real one, OPENAI_BASE_URL that of any server
    with OpenAI's API, such as one on this machine.

      callboard init hello
      cd hello && callboard up app:app

      callboard init helper --template assistant
      cd helper && callboard up app:app
    """
    if folder.exists() and not folder.is_dir():
        bad_use(f"{folder} is a file: give the name of a folder")
    name = re.sub(r"[^a-z0-9_-]+", "-", folder.resolve().name.lower()).strip("-") or "hello"
    chosen = TEMPLATES[template]
    files = {**chosen.files(name), ".gitignore": GITIGNORE}
    there = [file for file in files if (folder / file).exists()]
    if there:
        bad_use(f"{', '.join(there)} in {folder.resolve()} would be overwritten: choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        (folder / file).write_text(text, encoding="utf-8")
    enter = "" if folder.resolve() == Path.cwd() else shell_line("cd", folder) + " && "
    say(f"wrote {', '.join(files)} to {folder.resolve()}")
    say("start it:  " + enter + "callboard up app:app")
    say("then try:  " + enter + chosen.first)


LONGEST_PACE = 60  # seconds


def demo(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE or FOLDER]", help="A .md or .txt file or a folder. Default: our own docs."
        ),
    ] = None,
    kill: Annotated[
        bool, typer.Option("--kill", help="Kill a worker process with -9 in the middle.")
    ] = False,
    words: Annotated[
        int, typer.Option(min=100, max=5_000, metavar="N", help="Longest digest, in words.")
    ] = 350,
    pace: Annotated[
        float | None,
        typer.Option(
            metavar="DURATION",
            parser=duration,
            help="Pause before each draft, a minute at most. Default: 300ms; 600ms if --kill.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="NAME",
            help="A model that words the digest (OPENAI_API_KEY or OPENAI_BASE_URL). Default: none.",
        ),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="With --model: most tokens that it may use.")
    ] = None,
    price: Annotated[
        str | None,
        typer.Option(
            metavar="READ/WRITTEN", help="With --model: USD for a million tokens, such as 0.15/0.60."
        ),
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> int:
    """Digest real documents, with four agent types.

    A splits the text into ten subtasks, three processes of B choose sentences for each, C compiles, D reviews
    and sends feedback to B; three rounds. Then the counts are checked: 1 message for A, 30 for B, 30 for C,
    30 for D, 10 results, nothing pending and nothing dead, whatever was killed on the way. It needs no model
    and no key, and runs on a server of its own in .callboard/ unless --url is given.

    With --model a model puts B's sentences into plain words and writes D's remarks; its answers are recorded, so that
    a worker that dies pays for none of them twice. Tokens and costs are said at the end.

      callboard demo
      callboard demo docs --kill
      callboard demo notes.md --words 200 --json
      callboard demo --model gpt-4o-mini --price 0.15/0.60 --tokens 200000

    Exit codes: 0 every count is exact, 1 one of them is not, 2 wrong use, 3 no server, 130 interrupted.
    """
    if pace is not None and pace > LONGEST_PACE:
        bad_use(f"--pace {pace:g} is too long: {LONGEST_PACE} seconds at most")
    return int(
        _demo_module().run_demo(
            path,
            kill=kill,
            words=words,
            pace=pace,
            url=url,
            as_json=as_json,
            model=model,
            tokens=tokens,
            price=price,
        )
    )


def _demo_module() -> ModuleType:
    """The module of the example `digest` that runs it; its worker processes import the example from the same folder."""
    from callboard.process.loader import import_module

    return import_module("digest.demo", examples_folder())
