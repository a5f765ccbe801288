"""Dispatchers: their interface, the one whose handoffs stay as they are, handoffs with arguments, and errors.

```
ActorError
└── DispatchError
    ├── HandoffDeclarationError     it can't be made, or not beside the others (ValueError, TypeError)
    ├── TargetRefusedError          no agent may hand over to this target, or this one may not (ValueError)
    └── UnknownHandoffError         there is no handoff of this name (KeyError, ValueError)
```

When a model creates a handoff, it reads the texts of these errors as the result of its call.
"""

from __future__ import annotations

import keyword
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias, cast

from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from callboard.agents.handoff import Handoff
from callboard.core.cancellation import CancellationToken
from callboard.errors import did_you_mean
from callboard.foundation import ActorError
from callboard.memory.llm_messages import LLMMessage
from callboard.tools.base import BaseTool
from callboard.tools.function import FunctionTool
from callboard.tools.schema import MAX_DESCRIPTION, NAME


class DispatchError(ActorError):
    """The root of everything that dispatchers raise."""


class HandoffDeclarationError(DispatchError, ValueError, TypeError):
    """A handoff or a dispatcher can't be made like this, or be one handoff more.

    Something else than a handoff is an AttributeError in the proposal.
    """

    template = "{reason}"
    permanent = True

    reason: str


def name_taken(name: str, what: str = "handoff") -> HandoffDeclarationError:
    """The error of a handoff that has the name of another one, or of a tool."""
    return HandoffDeclarationError(f"there is a {what} {name!r} already: choose another name")


class TargetRefusedError(DispatchError, ValueError):
    """The conversation can't be handed over to this agent."""

    template = "the conversation can't be handed over to {target!r}: {reason}"
    permanent = True

    target: str
    reason: str


class UnknownHandoffError(DispatchError, KeyError, ValueError):
    """There is no handoff of this name. The proposal raises a KeyError in one method and a ValueError in the others."""

    permanent = True

    name: str
    known: Sequence[str] = ()

    def __str__(self) -> str:
        advice = did_you_mean(self.name, self.known) if self.known else "There are none."
        return f"there is no handoff {self.name!r}. {advice}"


EnabledFunc: TypeAlias = Callable[[str, Sequence[LLMMessage]], bool]
"""Whether an agent's model is shown a handoff: of the agent's name and of what its model sees of the conversation. In a
handler it has to return the same in every attempt."""

Origin: TypeAlias = Literal["given", "added", "created"]


@dataclass(frozen=True, slots=True)
class KnownHandoff:
    """A handoff in a dispatcher.

    Attributes:
        handoff: The handoff.
        origin: Whether the constructor was given it, the program added it, or it was created.
        enabled: Whether models are shown it.
        when: Whether they are shown it now; None: always.
        born: The turn in which it was created.
        uses: How often it was used.
    """

    handoff: Handoff
    origin: Origin
    enabled: bool = True
    when: EnabledFunc | None = None
    born: int = 0
    uses: int = 0

    @property
    def is_plain(self) -> bool:
        """Whether it can be written down."""
        return type(self.handoff) is Handoff and self.handoff.input_filter is None and self.when is None


def check_handoff(given: Any) -> Handoff:
    """The handoff, if models can be shown it.

    Raises:
        HandoffDeclarationError: It is none, or its name or description can't be used (a ValueError and a TypeError).
    """
    if not isinstance(given, Handoff):
        raise HandoffDeclarationError(f"a {type(given).__name__} is no handoff: give a Handoff(target=...)")
    check_texts(given.name, given.description)
    return given


def check_texts(name: str, description: str) -> None:
    """Check the name and the description of a handoff.

    Raises:
        HandoffDeclarationError: One of them can't be used (a ValueError).
    """
    if not NAME.match(name) or keyword.iskeyword(name):
        rule = "its name may have a letter or '_', then up to 63 letters a-z, digits and '_', and is no Python keyword"
        raise HandoffDeclarationError(f"{name[:80]!r} can't be a handoff: {rule}")
    if len(description) > MAX_DESCRIPTION:
        size = f"its description has {len(description):,} characters: at most {MAX_DESCRIPTION:,} are allowed"
        raise HandoffDeclarationError(f"{name} can't be a handoff: {size}")


class AbstractDispatcher(ABC):
    """To whom agents may hand over. Several agents of one process may share a dispatcher.

    After the proposal of AutoGen #4739, whose names it keeps.
    """

    @property
    @abstractmethod
    def handoffs(self) -> list[Handoff]:
        """All handoffs, in the order in which they were added. In the proposal's `Dispatcher` it is a method."""
        ...

    def offered(self, agent: str, messages: Sequence[LLMMessage] = ()) -> list[Handoff]:
        """The handoffs that an agent's model is shown now; here: all but those to itself.

        Args:
            agent: The agent's name.
            messages: What its model sees of the conversation.
        """
        return [handoff for handoff in self.handoffs if handoff.target != agent]

    def join(self, members: Sequence[str]) -> None:  # noqa: B027 - most have nothing to learn
        """Learn who is in the team of an agent that uses this dispatcher; here: nothing.

        Raises:
            TargetRefusedError: A handoff goes to another agent (a ValueError).
        """


class AbstractDynamicDispatcher(AbstractDispatcher):
    """Handoffs that come and go. In the proposal it is no dispatcher: it has no `handoffs`."""

    @abstractmethod
    def create_handoff(
        self, name: str, target: str, description: str, message: str, *, caller: str | None = None
    ) -> Handoff:
        """Create and add a handoff, enabled.

        Args:
            name: Name of its tool; "": made of the target.
            target: Who goes on.
            description: When to do it, for the model; "": made of the target.
            message: What is said to the target; "": that it takes over.
            caller: The agent whose model asks for it; None: your program.

        Raises:
            DispatchError: It is refused.
        """
        ...

    @abstractmethod
    def add_handoff(self, handoff: Handoff, enabled: bool = True) -> None:
        """Add a handoff.

        Raises:
            DispatchError: It is refused.
        """
        ...

    @abstractmethod
    def delete_handoff(self, handoff_name: str) -> None:
        """Delete a handoff.

        Raises:
            UnknownHandoffError: There is none of this name (a KeyError and a ValueError).
        """
        ...

    @abstractmethod
    def delete_all_handoffs(self) -> None:
        """Delete all handoffs, and what was known of them."""
        ...

    @abstractmethod
    def enable_handoff(self, handoff_name: str) -> None:
        """Show a handoff to models again.

        Raises:
            UnknownHandoffError: There is none of this name (a KeyError and a ValueError).
        """
        ...

    @abstractmethod
    def disable_handoff(self, handoff_name: str) -> None:
        """Show a handoff to models no more.

        Raises:
            UnknownHandoffError: There is none of this name (a KeyError and a ValueError).
        """
        ...

    @property
    @abstractmethod
    def enabled_handoffs(self) -> list[Handoff]:
        """The enabled handoffs, in the order in which they were added."""
        ...

    def offered(self, agent: str, messages: Sequence[LLMMessage] = ()) -> list[Handoff]:
        """The handoffs that an agent's model is shown now; here: the enabled ones, but for those to itself."""
        return [handoff for handoff in self.enabled_handoffs if handoff.target != agent]

    # Told by agents that use it

    def begin_turn(self) -> list[Handoff]:
        """An agent begins a turn.

        Returns:
            Handoffs whose lifetime has ended, and which are deleted. Here: none.
        """
        return []

    def handed_over(self, handoff_name: str) -> bool:
        """An agent hands over.

        Returns:
            Whether the handoff was for this one time, and is deleted. Here: False.
        """
        return False

    def reset(self) -> None:
        """The conversation begins anew; here: nothing."""

    async def save_state(self) -> Mapping[str, Any]:
        """Its state beyond the beginning, as plain data; here: nothing."""
        return {}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned; here: nothing."""


class Dispatcher(AbstractDispatcher):
    """A list of handoffs.

    The program wrote it, so no agent has to be authorized. The proposal's keeps the last of two handoffs with one name.

    Args:
        handoffs: The handoffs.

    Raises:
        HandoffDeclarationError: One is none, can't be shown to models, or has the name of another (a ValueError).
    """

    def __init__(self, handoffs: Iterable[Handoff] = ()) -> None:
        self._handoffs: dict[str, Handoff] = {}
        for handoff in handoffs:
            name = check_handoff(handoff).name
            if name in self._handoffs:
                raise name_taken(name)
            self._handoffs[name] = handoff

    @property
    def handoffs(self) -> list[Handoff]:
        """All handoffs, in their order."""
        return list(self._handoffs.values())

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # it never changes


class TypedHandoff(Handoff):
    """A handoff with arguments, which the model writes and the target reads behind the message, as JSON.

    In the manner of `input_type` of OpenAI's Agents SDK; AutoGen has none. It is not saved: add it in your program.

    Attributes:
        input_type: The model of the arguments.
    """

    input_type: SkipJsonSchema[type[BaseModel]] = Field(exclude=True, repr=False)

    @property
    def handoff_tool(self) -> FunctionTool:
        """The tool that a model calls to hand over; it takes the arguments and returns message and arguments."""
        return cast("FunctionTool", _HandingOver(self))


class _HandingOver(BaseTool[BaseModel, str]):
    def __init__(self, handoff: TypedHandoff) -> None:
        super().__init__(handoff.input_type, str, handoff.name, handoff.description)
        self._message = handoff.message

    async def run(self, args: Any, cancellation_token: CancellationToken) -> str:
        return f"{self._message}\n{args.model_dump_json()}"
