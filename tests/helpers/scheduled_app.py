"""An app for tests that kill its processes: four schedules that send to a topic nobody hears, so that all stays there."""

from __future__ import annotations

from datetime import timedelta

from callboard import App, RoutedAgent
from tests.helpers.runtimes import Note

SPAN = 100  # ms between two due times
NAMES = ("north", "east", "south", "west")

app = App("bells")


@app.agent("ringer")
class Ringer(RoutedAgent):
    """Does nothing: a worker needs a type to work for."""

    def __init__(self) -> None:
        super().__init__("does nothing")


for name in NAMES:
    app.schedule(timedelta(milliseconds=SPAN), Note(text=name), topic="rings", name=name, missed="all")
