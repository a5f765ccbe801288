"""`callboard init`: a small app to begin with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from .exits import bad_use
from .options import command
from .output import say


def add_to(app: typer.Typer) -> None:
    """Adds the command."""
    command(app, "init", init)


def init(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Made when it does not exist.")] = Path(),
) -> None:
    """Write a small app that runs.

    That is app.py, a README with the commands to try, and a .gitignore. Nothing is overwritten.

      callboard init hello
      cd hello && callboard up app:app
    """
    from .templates import APP, GITIGNORE, README

    files = {"app.py": APP, "README.md": README, ".gitignore": GITIGNORE}
    if folder.exists() and not folder.is_dir():
        bad_use(f"{folder} is a file: give the name of a folder")
    there = [name for name in files if (folder / name).exists()]
    if there:
        bad_use(f"{', '.join(there)} in {folder.resolve()} would be overwritten: choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^a-z0-9_-]+", "-", folder.resolve().name.lower()).strip("-") or "hello"
    for file, text in files.items():
        content = text if file == ".gitignore" else text.format(name=name)
        (folder / file).write_text(content, encoding="utf-8")
    enter = "" if folder.resolve() == Path.cwd() else f"cd {folder} && "
    say(f"wrote {', '.join(files)} to {folder.resolve()}")
    say(f"start it:  {enter}callboard up app:app")
    say(f"then try:  {enter}callboard publish app:app visits Visit name=Ada")
