"""The state of an agent class as its type argument: `class Counter(RoutedAgent[CounterState])`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args, get_origin

from .errors import StateError

if TYPE_CHECKING:
    from pydantic import BaseModel
    from typing_extensions import TypeVar

    StateT = TypeVar("StateT", bound=BaseModel, default=Any)
else:
    from typing import TypeVar

    # Bound and default are for type checkers: neither pydantic nor typing_extensions is needed to declare an agent.
    StateT = TypeVar("StateT")

PARAMETER = "_state_parameter"


def state_argument(agent_class: type[Any]) -> type[BaseModel] | None:
    """The model that a class names as the argument of its base class; None: it names none.

    Where the argument is a type variable, the class is generic in its state itself: it is remembered for its
    subclasses.

    Raises:
        StateError: The argument is no pydantic model.
    """
    for base in vars(agent_class).get("__orig_bases__", ()):
        argument = _argument(get_origin(base), get_args(base))
        if isinstance(argument, TypeVar):
            setattr(agent_class, PARAMETER, argument)
        elif isinstance(argument, type) and hasattr(argument, "model_validate_json"):
            return argument
        elif argument is not None and argument is not Any:
            reason = f"the argument of its base class has to be a pydantic model, not {argument!r}."
            raise StateError(agent_class.__name__, reason)
    return None


def _argument(base: Any, arguments: tuple[Any, ...]) -> Any:
    """What stands for the state among the arguments of a base class; None: nothing does."""
    parameters = getattr(base, "__parameters__", ())
    parameter = getattr(base, PARAMETER, StateT)
    if not hasattr(base, "on_message") or parameter not in parameters:
        return None
    return arguments[parameters.index(parameter)]
