"""Errors of the programming model.

```
ActorError
├── CantHandleException              AutoGen's name: nobody here takes this message
│   ├── NoHandlerError(agent, message)         a request no handler of the agent answers
│   ├── HandlerInputError(handler, message, accepted)
│   └── NoSubscriptionContextError(subscription)
├── UndeliverableException           AutoGen's name: the recipient does not exist
├── MessageDroppedException          AutoGen's name: an intervention handler dropped it
├── NotAccessibleError               AutoGen's name: the agent lives in another process
├── HandlerDeclarationError(handler, reason)   also AssertionError
├── HandlerResultError(handler, result, declared)  also ValueError
├── OutsideContextError(what, where)           also RuntimeError
├── StaticClassError(name)                     also RuntimeError
├── AlreadyBoundError(agent, what)             also RuntimeError
├── NotBoundError(agent)                       also AttributeError
├── DescriptionError(given)                    also ValueError
├── StateError(agent, reason)                  also TypeError
├── StateMissingError(agent)                   also AttributeError
├── ClosureInstantiationError                  also RuntimeError
└── DeclarationError                 an App or registration that cannot work
    ├── DuplicateAgentTypeError(agent_type)    also ValueError
    ├── UnknownAgentTypeError(agent_type, known)  also LookupError
    ├── AgentClassError(agent_type, given)     also TypeError
    ├── UnknownSettingError(setting, known)    also TypeError
    ├── SettingValueError(setting, value, rule)  also ValueError
    ├── AgentArgumentsError(agent_type, agent_class, arguments)  also TypeError
    ├── SubscriptionKindError(agent_type, given, reason)  also TypeError
    └── AsyncSubscriptionError(agent_type)     also TypeError
```

The four names of AutoGen take any text. All others take their data and make the sentence themselves; the data
are plain values kept in ``args``, so that an error can be rebuilt in another process as ``cls(*args)``.
"""

import difflib
from collections.abc import Iterable


class ActorError(Exception):
    """Root of everything that ``actors`` raises."""


class CantHandleException(ActorError):
    """Raised when an agent, a handler or a subscription can't handle a message.

    Attributes:
        permanent: True: another attempt would end the same way, so the message is not retried.
    """

    permanent = True


class UndeliverableException(ActorError):
    """Raised when a message can't be delivered, for example because its recipient is not registered."""


class MessageDroppedException(ActorError):
    """Raised at the sender when an intervention handler dropped the request or its response."""


class NotAccessibleError(ActorError):
    """Raised when something is asked of an agent that is not in this process."""


class NoHandlerError(CantHandleException):
    """A request reached an agent without a handler for it.

    Attributes:
        agent: Class of the agent.
        message: Class of the message.
    """

    def __init__(self, agent: str, message: str) -> None:
        super().__init__(agent, message)
        self.agent = agent
        self.message = message

    def __str__(self) -> str:
        return (
            f"{self.agent} has no handler for a request of type {self.message}. "
            f"Add a method with @rpc and a parameter `message: {self.message}`, or check its `match=`."
        )


class HandlerInputError(CantHandleException):
    """A handler was called with a message of a type it does not declare.

    Attributes:
        handler: Qualified name of the handler.
        message: Class of the message.
        accepted: The classes it declares.
    """

    def __init__(self, handler: str, message: str, accepted: str) -> None:
        super().__init__(handler, message, accepted)
        self.handler = handler
        self.message = message
        self.accepted = accepted

    def __str__(self) -> str:
        return f"Message type {self.message} not in target types {self.accepted} of {self.handler}."


class NoSubscriptionContextError(CantHandleException):
    """A subscription that takes its agent type from the registration was made outside of one.

    Attributes:
        subscription: Class of the subscription.
    """

    def __init__(self, subscription: str) -> None:
        super().__init__(subscription)
        self.subscription = subscription

    def __str__(self) -> str:
        return (
            f"{self.subscription}() takes its agent type from the registration it is made in. "
            "Give agent_type=, or use it in a decorator or a subscriptions= callback."
        )


class HandlerDeclarationError(ActorError, AssertionError):
    """A message handler is declared in a way that can't work.

    Attributes:
        handler: Qualified name of the function.
        reason: What is wrong with it and what to write instead.
    """

    def __init__(self, handler: str, reason: str) -> None:
        super().__init__(handler, reason)
        self.handler = handler
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.handler}: {self.reason}"


class HandlerResultError(ActorError, ValueError):
    """A handler returned something it does not declare.

    Attributes:
        handler: Qualified name of the handler.
        result: Class of what it returned.
        declared: The classes in its return annotation.
        permanent: True: the same code would return the same again.
    """

    permanent = True

    def __init__(self, handler: str, result: str, declared: str) -> None:
        super().__init__(handler, result, declared)
        self.handler = handler
        self.result = result
        self.declared = declared

    def __str__(self) -> str:
        return (
            f"{self.handler}: Return type {self.result} not in return types {self.declared}. "
            "Correct the annotation, or use strict=False."
        )


class OutsideContextError(ActorError, RuntimeError):
    """Something that only exists while the runtime does a certain thing was asked for at another time.

    Attributes:
        what: The call that was made.
        where: Where it may be made.
    """

    def __init__(self, what: str, where: str) -> None:
        super().__init__(what, where)
        self.what = what
        self.where = where

    def __str__(self) -> str:
        return f"{self.what} must be called within {self.where}."


class StaticClassError(ActorError, RuntimeError):
    """A class that only holds class methods was instantiated.

    Attributes:
        name: The class.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"{self.name} cannot be instantiated: call its class methods."


class AlreadyBoundError(ActorError, RuntimeError):
    """An agent instance was bound to a second id or runtime.

    Attributes:
        agent: Class of the agent.
        what: ``"ID"`` or ``"runtime"``.
    """

    def __init__(self, agent: str, what: str) -> None:
        super().__init__(agent, what)
        self.agent = agent
        self.what = what

    def __str__(self) -> str:
        return (
            f"Agent is already bound to a different {self.what}: make another {self.agent}, don't share one."
        )


class NotBoundError(ActorError, AttributeError):
    """The id or the runtime of an agent was asked for before a runtime had it.

    Attributes:
        agent: Class of the agent.
    """

    def __init__(self, agent: str) -> None:
        super().__init__(agent)
        self.agent = agent

    def __str__(self) -> str:
        return (
            f"This {self.agent} belongs to no runtime yet: register it, or make it in a registered factory."
        )


class DescriptionError(ActorError, ValueError):
    """The description of an agent is not a string.

    Attributes:
        given: Class of what was given.
    """

    def __init__(self, given: str) -> None:
        super().__init__(given)
        self.given = given

    def __str__(self) -> str:
        return f"Agent description must be a string, not {self.given}."


class StateError(ActorError, TypeError):
    """The persistent state of an agent can't be what it was given or declared as.

    Attributes:
        agent: Class of the agent.
        reason: What is wrong and what to do.
        permanent: True: another attempt meets the same state.
    """

    permanent = True

    def __init__(self, agent: str, reason: str) -> None:
        super().__init__(agent, reason)
        self.agent = agent
        self.reason = reason

    def __str__(self) -> str:
        return f"State of {self.agent}: {self.reason}"


class StateMissingError(ActorError, AttributeError):
    """``self.state`` of an agent that declares none.

    Attributes:
        agent: Class of the agent.
    """

    def __init__(self, agent: str) -> None:
        super().__init__(agent)
        self.agent = agent

    def __str__(self) -> str:
        return f"{self.agent} declares no state: add a nested `class State(BaseModel)` with defaults."


class ClosureInstantiationError(ActorError, RuntimeError):
    """A ClosureAgent was made by hand."""

    def __str__(self) -> str:
        return (
            "ClosureAgent must be instantiated within the context of an AgentRuntime. "
            "Use ClosureAgent.register_closure(), or closure() of an App."
        )


class DeclarationError(ActorError):
    """Something that was declared or registered can't work."""


class DuplicateAgentTypeError(DeclarationError, ValueError):
    """Two declarations share one agent type.

    Attributes:
        agent_type: The type.
    """

    def __init__(self, agent_type: str) -> None:
        super().__init__(agent_type)
        self.agent_type = agent_type

    def __str__(self) -> str:
        return f"Agent with type {self.agent_type} already exists: give one of the two another type."


class UnknownAgentTypeError(DeclarationError, LookupError):
    """No agent of this type is declared.

    Attributes:
        agent_type: The type that was asked for.
        known: The types there are.
    """

    def __init__(self, agent_type: str, known: Iterable[str]) -> None:
        names = tuple(known)
        super().__init__(agent_type, names)
        self.agent_type = agent_type
        self.known = names

    def __str__(self) -> str:
        return f"There is no agent type {self.agent_type!r}. {did_you_mean(self.agent_type, self.known)}"


class AgentClassError(DeclarationError, TypeError):
    """What was declared as an agent is not a class of agents.

    Attributes:
        agent_type: The type it was declared for.
        given: What was given instead.
    """

    def __init__(self, agent_type: str, given: str) -> None:
        super().__init__(agent_type, given)
        self.agent_type = agent_type
        self.given = given

    def __str__(self) -> str:
        return (
            f"{self.given} can't be agent type {self.agent_type!r}: it is not a subclass of Agent. "
            "Derive it from RoutedAgent, or use closure() for a function."
        )


class UnknownSettingError(DeclarationError, TypeError):
    """A setting of an agent type that does not exist.

    Attributes:
        setting: The name that was given.
        known: The names there are.
    """

    def __init__(self, setting: str, known: Iterable[str]) -> None:
        names = tuple(known)
        super().__init__(setting, names)
        self.setting = setting
        self.known = names

    def __str__(self) -> str:
        return f"There is no agent setting {self.setting!r}. {did_you_mean(self.setting, self.known)}"


class SettingValueError(DeclarationError, ValueError):
    """A setting of an app or an agent type has a value that can't work.

    Attributes:
        setting: Its name.
        value: The value, as text.
        rule: What it has to be.
    """

    def __init__(self, setting: str, value: str, rule: str) -> None:
        super().__init__(setting, value, rule)
        self.setting = setting
        self.value = value
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.setting}={self.value} can't work: it must be {self.rule}."


class AgentArgumentsError(DeclarationError, TypeError):
    """The class of a declared agent can't be made without arguments.

    Attributes:
        agent_type: The type it was declared for.
        agent_class: Its name.
        arguments: What its constructor asks for.
    """

    def __init__(self, agent_type: str, agent_class: str, arguments: str) -> None:
        super().__init__(agent_type, agent_class, arguments)
        self.agent_type = agent_type
        self.agent_class = agent_class
        self.arguments = arguments

    def __str__(self) -> str:
        return (
            f"{self.agent_class} needs the arguments {self.arguments}: instead of @agent, use register("
            f"{self.agent_type!r}, lambda: {self.agent_class}(...), expected_class={self.agent_class})."
        )


class SubscriptionKindError(DeclarationError, TypeError):
    """What was given as topics or a subscription is neither.

    Attributes:
        agent_type: The agent type it was given for.
        given: What was given, as text.
        reason: What to give instead.
    """

    def __init__(self, agent_type: str, given: str, reason: str) -> None:
        super().__init__(agent_type, given, reason)
        self.agent_type = agent_type
        self.given = given
        self.reason = reason

    def __str__(self) -> str:
        return f"Agent type {self.agent_type!r} can't subscribe to {self.given}: {self.reason}."


class AsyncSubscriptionError(DeclarationError, TypeError):
    """A subscription that has to be awaited was used where nothing is awaited.

    Attributes:
        agent_type: The agent type it belongs to.
    """

    def __init__(self, agent_type: str) -> None:
        super().__init__(agent_type)
        self.agent_type = agent_type

    def __str__(self) -> str:
        return (
            f"Agent type {self.agent_type!r} makes its class subscriptions asynchronously, and an App can't: "
            "make them in an ordinary function, or register the class on a runtime."
        )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A closing sentence for an unknown name: the nearest known one, else all of them."""
    names = sorted(known)
    if not names:
        return "None are declared yet."
    close = difflib.get_close_matches(name, names, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"There are: {', '.join(names)}."
