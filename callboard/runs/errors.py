"""Errors of runs."""

from __future__ import annotations

from callboard.foundation import ActorError


class RunError(ActorError):
    """The root of what is wrong with a run, or with what it is asked for."""


class RunDeclarationError(RunError, ValueError):
    """A run can't begin like this."""

    template = "{reason}"

    reason: str


class ContextVariableError(RunError, ValueError):
    """A context variable can't travel with the messages."""

    template = (
        "The context variable {name} can't be kept: {reason}. Its value has to fit into JSON: "
        "texts, numbers, lists, dictionaries, true, false."
    )
    permanent = True

    name: str
    reason: str


class RunCancelledError(RunError, RuntimeError):
    """A run was cancelled, and has no result; what was said until then can be read."""

    template = "The run {run_id!r} was cancelled, so that it has no result."

    run_id: str


class RunUnknownError(RunError, LookupError):
    """There is no such run, or nobody here knows where it is."""

    template = "The run {run_id!r} can't be found: {reason}"

    run_id: str
    reason: str


class LoopError(RunError, RuntimeError):
    """Something is called from a place where it would wait for itself."""

    template = "{what} can't wait here: {reason}"

    what: str
    reason: str


class EventTypeError(RunError, TypeError):
    """An event was given to a processor that can't take it."""

    template = "{processor} can't process an event of the type {type!r}: {reason}"

    processor: str
    type: str
    reason: str


class UnboundRequestError(RunError, RuntimeError):
    """An input request that was not read from a run is answered."""

    template = (
        "The input request {request_id!r} does not come from the events of a run, so that it can't be answered by itself. "
        "Answer it with `response.respond(request_id, value)`."
    )

    request_id: str
