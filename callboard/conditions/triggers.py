"""Conditions that are reached once something was said or has happened."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Self, TypeAlias

from pydantic import BaseModel

from callboard.errors import SettingValueError
from callboard.foundation.component import Component
from callboard.messages.chat import HandoffMessage, StopMessage, TextMessage
from callboard.messages.events import ToolCallExecutionEvent
from callboard.tools.named_functions import function_at, function_path

from .base import Messages, TerminatedException, TerminationCondition, read_state


class LatchedTermination(TerminationCondition, ABC):
    """A condition that remembers nothing but that it has been reached. Derive from it and write `reason`."""

    def __init__(self) -> None:
        self._terminated = False

    @abstractmethod
    async def reason(self, messages: Messages) -> str | None:
        """Why a conversation ends in which this is said; None: it goes on.

        Args:
            messages: What was said since the last call.
        """
        ...

    @property
    def terminated(self) -> bool:
        """Whether it has been reached."""
        return self._terminated

    async def __call__(self, messages: Messages) -> StopMessage | None:
        """Look at what is new; see `TerminationCondition`."""
        if self._terminated:
            raise TerminatedException
        text = await self.reason(messages)
        if text is None:
            return None
        self._terminated = True
        return StopMessage(content=text, source=type(self).__name__)

    async def reset(self) -> None:
        """Be as in the beginning."""
        self._terminated = False

    async def save_state(self) -> Mapping[str, Any]:
        """Whether it has been reached."""
        return {"terminated": self._terminated}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned.

        Raises:
            ConditionStateError: It is no such state (a ValueError).
        """
        self._terminated = read_state(_LatchState, state, self).terminated


class _LatchState(BaseModel):
    terminated: bool


class TextMentionTerminationConfig(BaseModel):
    """A TextMentionTermination as plain data; its fields are the arguments of TextMentionTermination."""

    text: str
    sources: list[str] | None = None


class TextMentionTermination(LatchedTermination, Component[TextMentionTerminationConfig]):
    """Is reached when a message or event contains a text. The task counts, too.

    Args:
        text: The text; upper and lower case differ.
        sources: Names of those who are listened to; None: everybody.
    """

    component_config_schema = TextMentionTerminationConfig
    component_provider_override = "callboard.conditions.TextMentionTermination"

    def __init__(self, text: str, sources: Sequence[str] | None = None) -> None:
        super().__init__()
        given: object = text
        if not isinstance(given, str):
            raise SettingValueError(
                "text",
                repr(given),
                'a text; for several: TextMentionTermination("A") | TextMentionTermination("B")',
            )
        self._text = text
        self._sources = None if sources is None else tuple(sources)

    async def reason(self, messages: Messages) -> str | None:
        """Whether one of the messages contains the text."""
        for said in messages:
            if (self._sources is None or said.source in self._sources) and self._text in said.to_text():
                return f"Text '{self._text}' mentioned"
        return None

    def _to_config(self) -> TextMentionTerminationConfig:
        return TextMentionTerminationConfig(
            text=self._text, sources=None if self._sources is None else list(self._sources)
        )

    @classmethod
    def _from_config(cls, config: TextMentionTerminationConfig) -> Self:
        return cls(**dict(config))


class TextMessageTerminationConfig(BaseModel):
    """A TextMessageTermination as plain data; its fields are the arguments of TextMessageTermination."""

    source: str | None = None


class TextMessageTermination(LatchedTermination, Component[TextMessageTerminationConfig]):
    """Is reached when a `TextMessage` is said, in the place of a tool's summary for example. The task counts, too.

    Args:
        source: Who has to say it; None: anybody.
    """

    component_config_schema = TextMessageTerminationConfig
    component_provider_override = "callboard.conditions.TextMessageTermination"

    def __init__(self, source: str | None = None) -> None:
        super().__init__()
        self._source = source

    async def reason(self, messages: Messages) -> str | None:
        """Whether one of the messages is a TextMessage of the source."""
        for said in messages:
            if isinstance(said, TextMessage) and self._source in (None, said.source):
                return f"Text message received from '{said.source}'"
        return None

    def _to_config(self) -> TextMessageTerminationConfig:
        return TextMessageTerminationConfig(source=self._source)

    @classmethod
    def _from_config(cls, config: TextMessageTerminationConfig) -> Self:
        return cls(**dict(config))


class StopMessageTerminationConfig(BaseModel):
    """A StopMessageTermination as plain data: nothing but its name."""


class StopMessageTermination(LatchedTermination, Component[StopMessageTerminationConfig]):
    """Is reached when a `StopMessage` is said."""

    component_config_schema = StopMessageTerminationConfig
    component_provider_override = "callboard.conditions.StopMessageTermination"

    async def reason(self, messages: Messages) -> str | None:
        """Whether one of the messages is a StopMessage."""
        return "Stop message received" if any(isinstance(said, StopMessage) for said in messages) else None

    def _to_config(self) -> StopMessageTerminationConfig:
        return StopMessageTerminationConfig()

    @classmethod
    def _from_config(cls, config: StopMessageTerminationConfig) -> Self:
        return cls()


class SourceMatchTerminationConfig(BaseModel):
    """A SourceMatchTermination as plain data; its fields are the arguments of SourceMatchTermination."""

    sources: list[str]


class SourceMatchTermination(LatchedTermination, Component[SourceMatchTerminationConfig]):
    """Is reached when one of several sources says something; an event counts, too.

    Args:
        sources: Names of agents.
    """

    component_config_schema = SourceMatchTerminationConfig
    component_provider_override = "callboard.conditions.SourceMatchTermination"

    def __init__(self, sources: Sequence[str]) -> None:
        super().__init__()
        self._sources = tuple(sources)

    async def reason(self, messages: Messages) -> str | None:
        """Whether one of the messages comes from one of the sources."""
        return next((f"'{said.source}' answered" for said in messages if said.source in self._sources), None)

    def _to_config(self) -> SourceMatchTerminationConfig:
        return SourceMatchTerminationConfig(sources=list(self._sources))

    @classmethod
    def _from_config(cls, config: SourceMatchTerminationConfig) -> Self:
        return cls(**dict(config))


class HandoffTerminationConfig(BaseModel):
    """A HandoffTermination as plain data; its fields are the arguments of HandoffTermination."""

    target: str


class HandoffTermination(LatchedTermination, Component[HandoffTerminationConfig]):
    """Is reached when a `HandoffMessage` names a target, such as a person who is not a member of the team.

    Args:
        target: Name of the target.
    """

    component_config_schema = HandoffTerminationConfig
    component_provider_override = "callboard.conditions.HandoffTermination"

    def __init__(self, target: str) -> None:
        super().__init__()
        self._target = target

    async def reason(self, messages: Messages) -> str | None:
        """Whether one of the messages hands over to the target."""
        for said in messages:
            if isinstance(said, HandoffMessage) and said.target == self._target:
                return f"Handoff to {self._target} from {said.source} detected."
        return None

    def _to_config(self) -> HandoffTerminationConfig:
        return HandoffTerminationConfig(target=self._target)

    @classmethod
    def _from_config(cls, config: HandoffTerminationConfig) -> Self:
        return cls(**dict(config))


class FunctionCallTerminationConfig(BaseModel):
    """A FunctionCallTermination as plain data; its fields are the arguments of FunctionCallTermination."""

    function_name: str


class FunctionCallTermination(LatchedTermination, Component[FunctionCallTerminationConfig]):
    """Is reached when a `ToolCallExecutionEvent` holds the result of a tool, also where the tool failed.

    Args:
        function_name: Name of the tool.
    """

    component_config_schema = FunctionCallTerminationConfig
    component_provider_override = "callboard.conditions.FunctionCallTermination"

    def __init__(self, function_name: str) -> None:
        super().__init__()
        self._function_name = function_name

    async def reason(self, messages: Messages) -> str | None:
        """Whether one of the events holds a result of the tool."""
        for said in messages:
            if isinstance(said, ToolCallExecutionEvent) and self._ran_in(said):
                return f"Function '{self._function_name}' was executed."
        return None

    def _ran_in(self, event: ToolCallExecutionEvent) -> bool:
        return any(result.name == self._function_name for result in event.content)

    def _to_config(self) -> FunctionCallTerminationConfig:
        return FunctionCallTerminationConfig(function_name=self._function_name)

    @classmethod
    def _from_config(cls, config: FunctionCallTerminationConfig) -> Self:
        return cls(**dict(config))


Func: TypeAlias = Callable[[Messages], bool] | Callable[[Messages], Awaitable[bool]]


class FunctionalTerminationConfig(BaseModel):
    """A FunctionalTermination as plain data. AutoGen's can't be written down.

    Attributes:
        func: Where the function is: ``module:qualname``.
    """

    func: str


class FunctionalTermination(LatchedTermination, Component[FunctionalTerminationConfig]):
    """Is reached when a function returns True.

    AutoGen asks an object with an ``async def __call__`` and never waits for its answer; this one waits.

    Args:
        func: Is given what was said since the last call, also where that is nothing; may be async. It should be quick,
            as it is called after each turn, and remember nothing, as what it remembers is in no state.
    """

    component_config_schema = FunctionalTerminationConfig
    component_provider_override = "callboard.conditions.FunctionalTermination"

    def __init__(self, func: Func) -> None:
        super().__init__()
        self._func = func

    async def reason(self, messages: Messages) -> str | None:
        """Whether the function returns True."""
        answer = self._func(messages)
        reached = await answer if inspect.isawaitable(answer) else answer
        return "Functional termination condition met" if reached is True else None

    def _to_config(self) -> FunctionalTerminationConfig:
        return FunctionalTerminationConfig(func=function_path(self._func, self))

    @classmethod
    def _from_config(cls, config: FunctionalTerminationConfig) -> Self:
        return cls(function_at(config.func))


class ExternalTerminationConfig(BaseModel):
    """A ExternalTermination as plain data: nothing but its name."""


class ExternalTermination(LatchedTermination, Component[ExternalTerminationConfig]):
    """Is reached when `set` was called: the turn that runs is finished first."""

    component_config_schema = ExternalTerminationConfig
    component_provider_override = "callboard.conditions.ExternalTermination"

    def __init__(self) -> None:
        super().__init__()
        self._set = False

    def set(self) -> None:
        """End the conversation after the turn that runs."""
        self._set = True

    async def reason(self, messages: Messages) -> str | None:
        """Whether `set` was called."""
        return "External termination requested" if self._set else None

    async def reset(self) -> None:
        """Be as in the beginning; an earlier `set` is forgotten."""
        await super().reset()
        self._set = False

    async def save_state(self) -> Mapping[str, Any]:
        """Whether it was set, and whether it has been reached."""
        return {**await super().save_state(), "set": self._set}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned.

        Raises:
            ConditionStateError: It is no such state (a ValueError).
        """
        saved = read_state(_ExternalState, state, self)
        await super().load_state(state)
        self._set = saved.set

    def _to_config(self) -> ExternalTerminationConfig:
        return ExternalTerminationConfig()

    @classmethod
    def _from_config(cls, config: ExternalTerminationConfig) -> Self:
        return cls()


class _ExternalState(BaseModel):
    set: bool
