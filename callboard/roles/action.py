"""What roles do: an action is a class, and the topic of the messages that it causes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, PrivateAttr

from .context import Context
from .llm import Answering
from .names import any_to_str


class Action(BaseModel):
    """Something that a role can do; write `run`.

    ```python
    class WriteCode(Action):
        async def run(self, with_messages: list[Message] | None = None, **kwargs: Any) -> str: ...
    ```

    Attributes:
        name: Its name; that of the class without.
        prefix: What models are told about the role, before every question.
        desc: What it does, in a sentence.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="allow")

    name: str = ""
    prefix: str = ""
    desc: str = ""
    _context: Context | None = PrivateAttr(default=None)
    _llm: Answering | None = PrivateAttr(default=None)

    def model_post_init(self, context: Any, /) -> None:
        """Name it."""
        self.name = self.name or type(self).__name__

    @property
    def context(self) -> Context:
        """The context of its role; one of its own where it has none."""
        if self._context is None:
            self._context = Context()
        return self._context

    @property
    def llm(self) -> Answering:
        """The language model; a person, where its role is one."""
        return self._llm or self.context.llm()

    def set_context(self, context: Context) -> None:
        """Give it the context of its role."""
        self._context = context

    def set_llm(self, llm: Answering | None) -> None:
        """Say who is asked; None: the model of the context."""
        self._llm = llm

    def set_prefix(self, prefix: str) -> Action:
        """Say what models are told about the role."""
        self.prefix = prefix
        return self

    async def run(self, *args: Any, **kwargs: Any) -> Any:
        """Do it.

        Args:
            *args: What its role gives it: all that the role remembers, as a list of messages.
            **kwargs: Whatever else.

        Returns:
            A text, an ActionOutput, a pydantic model, or a Message.
        """
        raise NotImplementedError(f"{any_to_str(self)} has no run(): write one.")

    async def _aask(self, prompt: str, system_msgs: Sequence[str] | None = None) -> str:
        """Ask the model; in an environment its answer is recorded, so that a crash behind it does not pay again.

        Args:
            prompt: The question.
            system_msgs: What it is told before; the prefix of the role without.

        Raises:
            NoMoneyException: The budget does not cover it.
        """
        told = [self.prefix] if system_msgs is None and self.prefix else system_msgs
        return await self.llm.aask(prompt, told)

    def __str__(self) -> str:
        return type(self).__name__

    __repr__ = __str__


class UserRequirement(Action):
    """What users want: the cause of a message that names none."""


class ActionOutput:
    """A result that is text and data.

    Args:
        content: The text.
        instruct_content: The data; its class is marked with `known_content`.
    """

    def __init__(self, content: str, instruct_content: BaseModel | None = None) -> None:
        self.content = content
        self.instruct_content = instruct_content
