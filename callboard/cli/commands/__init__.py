"""The commands: one module for each, or for a few that belong together.

To add a command, write a module with a function of the command's name, and add one line to the table. The function's
docstring is the help, and its parameters are the arguments and options. A group of commands is a `typer.Typer` of the
group's name instead. What a command needs is imported when it runs, so that `callboard --help` is quick.
"""

from collections.abc import Mapping
from importlib import import_module

import typer

from callboard.cli.options import command

COMMANDS: Mapping[str, str] = {
    "init": "starter",
    "up": "processes",
    "worker": "processes",
    "health": "health",
    "serve": "serve",
    "dashboard": "dashboard",
    "mcp": "mcp",
    "publish": "publish",
    "ask": "ask",
    "status": "views",
    "inspect": "views",
    "topics": "views",
    "types": "types",
    "tail": "views",
    "limits": "limits",
    "metrics": "metrics",
    "pause": "operations",
    "resume": "operations",
    "reset": "operations",
    "doctor": "doctor",
    "repair": "doctor",
    "acl": "operations",
    "deploy": "operations",
    "demo": "starter",
    "runs": "runs",
    "trace": "trace",
    "conversations": "conversations",
    "forget": "conversations",
    "schedules": "schedules",
    "dead": "dead",
    "memory": "memory",
    "server": "server",
}
"""The module of each command, in the order of the help."""


def add_commands(app: typer.Typer, commands: Mapping[str, str] = COMMANDS, package: str = __name__) -> None:
    """Add commands and groups to an app.

    Args:
        app: The command line.
        commands: The module of each.
        package: The package of the modules.
    """
    for name, module in commands.items():
        found = getattr(import_module(f"{package}.{module}"), name)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            command(app, name, found)
