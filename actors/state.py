"""The persistent state of an agent: a nested `class State(BaseModel)`.

It is loaded when the agent wakes up, and stored together with everything else that handling a message did.

The state is stored as JSON, so that a person can read it with redis-cli.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .errors import AgentAttributeError, StateError

if TYPE_CHECKING:
    from pydantic import BaseModel

_STATE = "_persistent_state"
_ADVICE = (
    "Give each field what it declares; set ser_json_bytes and val_json_bytes to 'base64' for bytes, "
    "and ser_json_inf_nan to 'constants' for NaN."
)


def state_model(agent_class: type[Any]) -> type[BaseModel] | None:
    """The `State` model of an agent class, its own or inherited; None: its agents live in memory only."""
    model: type[BaseModel] | None = getattr(agent_class, "_state_model", None)
    return model


def find_state_model(agent_class: type[Any]) -> type[BaseModel] | None:
    """The pydantic model that the body of a class calls `State`; other things of that name are not ours."""
    # Told by its methods and not by issubclass: importing pydantic costs more than the rest of this package.
    declared = vars(agent_class).get("State")
    return declared if isinstance(declared, type) and hasattr(declared, "model_validate_json") else None


def default_state(agent: Any) -> Any:
    """Make, keep and return the state of an agent that has none yet.

    Raises:
        AgentAttributeError: The class declares none.
        StateError: A field of the model has no default.
    """
    model = state_model(type(agent))
    if model is None:
        raise AgentAttributeError(
            f"{type(agent).__name__} declares no state: give it a pydantic model with defaults, "
            "`RoutedAgent[YourState]`."
        )
    try:
        state = model()
    except ValueError as error:
        fields = _bad_fields(error)
        raise StateError(type(agent).__name__, f"every field needs a default; {fields} has none.") from error
    agent.__dict__[_STATE] = state
    return state


def get_state(agent: Any) -> Any:
    """The state of an agent, made when it has none yet."""
    try:
        return agent.__dict__[_STATE]
    except KeyError:
        return default_state(agent)


def set_state(agent: Any, state: Any) -> None:
    """Replace the state of an agent.

    Raises:
        StateError: The class declares another model.
    """
    model = state_model(type(agent))
    if model is not None and not isinstance(state, model):
        given = type(state).__name__
        raise StateError(type(agent).__name__, f"it must be a {model.__qualname__}, not {given}.")
    agent.__dict__[_STATE] = state


def dump_state(agent: Any) -> bytes | None:
    """The state of an agent as the bytes to store.

    Returns:
        JSON, of the default when nothing has touched it yet; None when the class declares no state.

    Raises:
        StateError: A value does not fit its field, or can't be written as JSON.
    """
    if state_model(type(agent)) is None:
        return None
    state = get_state(agent)
    try:
        data: bytes = type(state).__pydantic_serializer__.to_json(state, round_trip=True, warnings="error")
        if b"null" in data:
            # JSON has no NaN: pydantic writes null, which a field may not take back.
            type(state).__pydantic_validator__.validate_json(data, by_alias=True, by_name=True)
    except ValueError as error:
        reason = f"{_bad_fields(error)} can't be stored. {_ADVICE}"
        raise StateError(type(agent).__name__, reason) from error
    return data


def restore_state(agent: Any, data: bytes | None) -> None:
    """Give an agent a stored state back.

    Args:
        agent: An agent of a class that declares a state.
        data: What `dump_state` returned; None goes back to the default.

    Raises:
        StateError: The model has changed so that the stored state does not fit it any more.
    """
    if data is None:
        agent.__dict__.pop(_STATE, None)
        return
    model = state_model(type(agent))
    if model is None:
        raise StateError(type(agent).__name__, "it has one stored, but the class declares none any more.")
    try:
        state = model.__pydantic_validator__.validate_json(data, by_alias=True, by_name=True)
    except ValueError as error:
        reason = (
            f"what is stored does not fit it; look at {_bad_fields(error)}. Keep old fields or give defaults."
        )
        raise StateError(type(agent).__name__, reason) from error
    agent.__dict__[_STATE] = state


def state_to_mapping(agent: Any) -> Mapping[str, Any]:
    """The state of an agent as plain data that fits into JSON."""
    dumped: dict[str, Any] = get_state(agent).model_dump(mode="json", round_trip=True)
    return dumped


def state_from_mapping(agent: Any, state: Mapping[str, Any]) -> None:
    """Give an agent the state that `state_to_mapping` returned."""
    # Through JSON, where a model in strict mode still takes a date that is written as text.
    from pydantic_core import to_json

    restore_state(agent, to_json(dict(state)))


def _bad_fields(error: ValueError) -> str:
    """The fields that an error of pydantic names, without their values."""
    # A ValidationError has them as data, a serialization error only in its text.
    details: list[Any] = getattr(error, "errors", list)()
    found = [".".join(map(str, detail["loc"])) for detail in details]
    names = dict.fromkeys(found or re.findall(r"field_name='([^']*)'", str(error)))
    return ", ".join(filter(None, names)) or "the whole of it"
