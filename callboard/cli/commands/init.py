"""`callboard init`: a small app to begin with."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from callboard.cli.exits import bad_use
from callboard.cli.output import say
from callboard.cli.templates import GITIGNORE, TEMPLATES, TemplateName


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
    enter = "" if folder.resolve() == Path.cwd() else f"cd {shlex.quote(str(folder))} && "
    say(f"wrote {', '.join(files)} to {folder.resolve()}")
    say(f"start it:  {enter}callboard up app:app")
    say(f"then try:  {enter}{chosen.first}")
