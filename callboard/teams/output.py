"""The result of a run as an object of a class that was asked for."""

from __future__ import annotations

from pydantic import BaseModel, ValidationError

from callboard.agents.task import TaskResult
from callboard.messages.base import BaseChatMessage
from callboard.messages.structured import StructuredMessage

from .errors import TeamOutputError
from .json_text import first_problem, json_text


def with_output(result: TaskResult, content_type: type[BaseModel] | None, team: str) -> TaskResult:
    """A result whose `output` is the last message of the run, read as an object.

    Args:
        result: The result.
        content_type: Class of the object; None: there is none, and the result stays as it is.
        team: Name of the team.

    Raises:
        TeamOutputError: The last message does not fit (a ValueError).
    """
    if content_type is None:
        return result
    last = next((said for said in reversed(result.messages) if isinstance(said, BaseChatMessage)), None)
    if last is None:
        raise TeamOutputError(team, content_type.__name__, "", "nothing was said")
    try:
        output = _read(last, content_type)
    except ValidationError as error:
        problem = first_problem(error)
        raise TeamOutputError(team, content_type.__name__, last.source, problem) from error
    except ValueError as error:
        raise TeamOutputError(team, content_type.__name__, last.source, str(error)) from error
    return result.model_copy(update={"output": output})


def _read(message: BaseChatMessage, content_type: type[BaseModel]) -> BaseModel:
    content = message.content if isinstance(message, StructuredMessage) else None
    if isinstance(content, content_type):
        return content
    if isinstance(content, BaseModel):
        return content_type.model_validate(content.model_dump())
    return content_type.model_validate_json(json_text(message.to_model_text()))
