"""A book in chapters: one splits the work, any number write, one waits for all of them, one reviews, twice.

python -m examples.chapters "How to make tea"
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

from callboard import App
from callboard.models import LLMMessage
from callboard.roles import Action, Context, Environment, Message, Role, UserRequirement

from .models import close_models, make_model

TASK = "How to make tea"
CHAPTERS = ("water", "leaves", "patience")
ROUNDS = 2


class Outline(Action):
    """Says what the chapters are about."""


class WriteChapter(Action):
    """Writes one of them, or writes it again."""

    async def run(self, with_messages: Sequence[Message] = (), **kwargs: Any) -> str:
        return await self._aask(f"Write this in one sentence: {with_messages[-1].content}")


class Bind(Action):
    """Makes a book of all of them."""


class Review(Action):
    """Says what is to be better."""


class Editor(Role):
    """Splits the work; each of several messages of one action is a subtask."""

    profile: str = "editor"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.set_actions([Outline])

    async def _act(self) -> Message | None:
        for chapter in CHAPTERS:
            self.publish_message(Message(f"{self.rc.news[0].content}: {chapter}"))
        return None


class Writer(Role):
    """Writes; its chapters are written side by side, in as many processes as there are."""

    profile: str = "writer of books"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.set_actions([WriteChapter])
        self._watch({Outline, Review})


class Binder(Role):
    """Waits for all chapters of a round."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.set_actions([Bind])
        self._watch({WriteChapter}, join=True)

    async def _act(self) -> Message:
        return Message("\n".join(chapter.content for chapter in self.rc.news))


class Reviewer(Role):
    """Sends every chapter back once; what it says in the last round is the result."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.set_actions([Review])
        self._watch({Bind})

    async def _act(self) -> Message | None:
        book = self.rc.news[0].content
        if self.rc.is_last_round:
            return Message(book)
        for chapter in book.splitlines():
            self.publish_message(Message(f"Shorter, please. {chapter}"))
        return None


def script(messages: Sequence[LLMMessage]) -> str:
    """What the model says where there is none."""
    asked = str(messages[-1].content).removeprefix("Write this in one sentence: ")
    return f"{asked.rpartition(': ')[2]}!" if asked.startswith("Shorter") else f"About {asked}, at length."


def make_environment() -> Environment:
    env = Environment(Context(make_model(script)), max_rounds=ROUNDS)
    env.add_roles([Editor(), Writer(), Binder(), Reviewer()])
    return env


app = App("chapters")
make_environment().declare(app, processes={"Writer": 3})


async def main() -> None:
    try:
        async with make_environment() as env:
            env.publish_message(Message(" ".join(sys.argv[1:]) or TASK, cause_by=UserRequirement))
            await env.run()
            for message in env.history.get():
                print(f"--- {message.sent_from or 'user'} {message.part}\n{message.content}")
    finally:
        await close_models()


if __name__ == "__main__":
    asyncio.run(main())
