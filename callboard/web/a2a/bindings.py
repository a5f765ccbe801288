"""The two bindings over HTTP, JSON-RPC and REST: one table of operations, and how each of the two asks and answers."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from a2a import types
from a2a.server.context import ServerCallContext
from a2a.server.jsonrpc_models import JSONParseError
from a2a.server.request_handlers.response_helpers import build_error_response
from a2a.utils.constants import A2A_JSON_MEDIA_TYPE, PROTOCOL_VERSION_0_3, VERSION_HEADER
from a2a.utils.error_handlers import build_rest_error_payload
from a2a.utils.errors import (
    A2A_ERROR_MAPPING,
    A2AError,
    InternalError,
    InvalidParamsError,
    InvalidRequestError,
    MethodNotFoundError,
    TaskNotFoundError,
    UnsupportedOperationError,
    VersionNotSupportedError,
)
from a2a.utils.proto_utils import parse_params, to_stream_response
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import Message as ProtoMessage
from starlette.responses import Response

from callboard.foundation import CallboardError
from callboard.web.api import Call
from callboard.web.event_stream import EventStream, Portions
from callboard.web.problems import SAFE, Problem, problem_of
from callboard.web.requests import JSON, body_of, json_of

from .handler import CALL, RunHandler
from .story import NUMBER

MAJOR: Final = "1"
LONGEST_REASON: Final = 300  # characters
REFUSED: Final[Mapping[int, type[A2AError]]] = {
    400: InvalidParamsError,
    404: TaskNotFoundError,
    409: UnsupportedOperationError,
    410: UnsupportedOperationError,
    422: InvalidParamsError,
}
"""Errors of the protocol for problems; what has none of its own is told by the status of HTTP."""

RpcId: TypeAlias = str | int | None


class Operation(NamedTuple):
    """An operation.

    Attributes:
        name: Of JSON-RPC.
        takes: What goes in.
        does: Answers it.
        verb: Of REST.
        path: Of REST, under the service.
        is_stream: Whether its answer goes on.
    """

    name: str
    takes: type[ProtoMessage]
    does: Callable[[RunHandler, Any, ServerCallContext], Any]
    verb: str
    path: str
    is_stream: bool = False


_CONFIGS: Final = "/tasks/{task_id}/pushNotificationConfigs"
OPERATIONS: Final = (
    Operation("SendMessage", types.SendMessageRequest, RunHandler.on_message_send, "POST", "/message:send"),
    Operation(
        "SendStreamingMessage",
        types.SendMessageRequest,
        RunHandler.on_message_send_stream,
        "POST",
        "/message:stream",
        is_stream=True,
    ),
    Operation("CancelTask", types.CancelTaskRequest, RunHandler.on_cancel_task, "POST", "/tasks/{id}:cancel"),
    *(
        Operation(
            "SubscribeToTask",
            types.SubscribeToTaskRequest,
            RunHandler.on_subscribe_to_task,
            verb,
            "/tasks/{id}:subscribe",
            is_stream=True,
        )
        for verb in ("POST", "GET")
    ),
    Operation("GetTask", types.GetTaskRequest, RunHandler.on_get_task, "GET", "/tasks/{id}"),
    Operation("ListTasks", types.ListTasksRequest, RunHandler.on_list_tasks, "GET", "/tasks"),
    Operation(
        "CreateTaskPushNotificationConfig",
        types.TaskPushNotificationConfig,
        RunHandler.on_create_task_push_notification_config,
        "POST",
        _CONFIGS,
    ),
    Operation(
        "ListTaskPushNotificationConfigs",
        types.ListTaskPushNotificationConfigsRequest,
        RunHandler.on_list_task_push_notification_configs,
        "GET",
        _CONFIGS,
    ),
    Operation(
        "GetTaskPushNotificationConfig",
        types.GetTaskPushNotificationConfigRequest,
        RunHandler.on_get_task_push_notification_config,
        "GET",
        _CONFIGS + "/{id}",
    ),
    Operation(
        "DeleteTaskPushNotificationConfig",
        types.DeleteTaskPushNotificationConfigRequest,
        RunHandler.on_delete_task_push_notification_config,
        "DELETE",
        _CONFIGS + "/{id}",
    ),
    Operation(
        "GetExtendedAgentCard",
        types.GetExtendedAgentCardRequest,
        RunHandler.on_get_extended_agent_card,
        "GET",
        "/extendedAgentCard",
    ),
)
HANDLER: Final = RunHandler()


# JSON-RPC


async def rpc(call: Call) -> Response:
    """Answer a request of JSON-RPC."""
    request_id: RpcId = None
    try:
        body = await body_of(call.request, call.options)
        try:
            asked = _json(call, body)
        except Problem as problem:
            if problem.status != 400:
                raise
            return _as_json(build_error_response(None, JSONParseError(message=problem.detail)), 200, JSON, {})
        request_id = _id_of(asked)
        operation = next((one for one in OPERATIONS if one.name == asked["method"]), None)
        if operation is None:
            raise MethodNotFoundError
        params = _parsed(operation, asked.get("params", {}))

        def written(result: dict[str, Any]) -> dict[str, Any]:
            return {"jsonrpc": "2.0", "id": request_id, "result": result}

        return await _done(
            call, operation, params, written, lambda error: build_error_response(request_id, error), JSON
        )
    except (A2AError, CallboardError, Problem) as error:
        return rpc_error(error, request_id)


def rpc_error(error: Exception, request_id: RpcId = None) -> Response:
    """What went wrong, in JSON-RPC: with status 200, where the protocol has an error for it."""
    told, problem = _refusal(error)
    status = 200 if problem is None or problem.status in REFUSED else problem.status
    return _as_json(
        build_error_response(request_id, told), status, JSON, {} if problem is None else dict(problem.headers)
    )


def _id_of(asked: Any) -> RpcId:
    """The id of a request that is one."""
    if not isinstance(asked, dict):
        raise InvalidRequestError("a request is one object; there are no batches")
    request_id = asked.get("id")
    if isinstance(request_id, bool) or not isinstance(request_id, str | int | None):
        raise InvalidRequestError("the id of a request is a text, a whole number or null")
    if asked.get("jsonrpc") != "2.0" or not isinstance(asked.get("method"), str):
        raise InvalidRequestError('a request has "jsonrpc": "2.0" and a method')
    return request_id


# REST


async def rest(call: Call, operation: Operation) -> Response:
    """Answer a request of REST."""
    try:
        if operation.verb == "POST":
            body = await body_of(call.request, call.options)
            params = _parsed(operation, _json(call, body) if body else {})
        else:
            params = operation.takes()
            try:
                parse_params(call.request.query_params, params)
            except (ParseError, ValueError, TypeError) as error:
                raise InvalidParamsError(str(error)[:LONGEST_REASON]) from None
        for name, value in call.request.path_params.items():
            if name != "service":
                setattr(params, name, value)
        return await _done(
            call, operation, params, lambda result: result, build_rest_error_payload, A2A_JSON_MEDIA_TYPE
        )
    except (A2AError, CallboardError, Problem) as error:
        return rest_error(error)


def rest_error(error: Exception) -> Response:
    """What went wrong, in REST."""
    told, problem = _refusal(error)
    payload = build_rest_error_payload(told)
    if problem is None or problem.status in REFUSED:
        mapping = A2A_ERROR_MAPPING.get(type(told))
        return _as_json(payload, 500 if mapping is None else mapping.http_code, JSON, {})
    payload["error"]["code"] = problem.status
    return _as_json(payload, problem.status, JSON, dict(problem.headers))


# Both


async def _done(
    call: Call,
    operation: Operation,
    params: Any,
    written: Callable[[dict[str, Any]], dict[str, Any]],
    refused: Callable[[A2AError], dict[str, Any]],
    media_type: str,
) -> Response:
    """Do what is asked, and answer.

    Args:
        call: Who asks.
        operation: For what.
        params: What goes in.
        written: Puts a result into the form of the binding.
        refused: The same for an error in a stream.
        media_type: Of an answer that is no stream.
    """
    call.runs.check_service(call.identity, call.request.path_params["service"])
    _check_version(call)
    context = ServerCallContext(state={CALL: call, "headers": dict(call.request.headers)})
    if not operation.is_stream:
        result = await operation.does(HANDLER, params, context)
        return _as_json(written(_plain(result, params)), 200, media_type, {})
    stream = operation.does(HANDLER, params, context)
    # What is wrong with the request is an answer, and no stream.
    first = await anext(stream)
    return EventStream(_portions(first, stream, written, refused), call.streams, _event)


async def _portions(
    first: Any,
    stream: AsyncGenerator[Any, None],
    written: Callable[[dict[str, Any]], dict[str, Any]],
    refused: Callable[[A2AError], dict[str, Any]],
) -> Portions:
    try:
        yield [(_number(first), written(MessageToDict(to_stream_response(first))))]
        async for told in stream:
            yield [(_number(told), written(MessageToDict(to_stream_response(told))))]
    except (A2AError, CallboardError, Problem) as error:
        yield [("", refused(_refusal(error)[0]))]
    finally:
        await stream.aclose()


def _number(told: Any) -> str:
    return str(told.metadata[NUMBER])


def _event(one: tuple[str, dict[str, Any]]) -> bytes:
    """An event as it is sent: JSON on one line, and the number for a client that comes back."""
    number, told = one
    head = f"id: {number}\n" if number else "event: error\n"
    return f"{head}data: {json.dumps(told)}\n\n".encode()


def _plain(result: Any, params: Any) -> dict[str, Any]:
    if isinstance(params, types.SendMessageRequest):
        return MessageToDict(types.SendMessageResponse(task=result))
    if not isinstance(params, types.ListTasksRequest):
        return MessageToDict(result)
    # A list has all its fields, also the numbers that are 0; artifacts only where they were asked for.
    told = MessageToDict(result, always_print_fields_with_no_presence=True)
    if not params.include_artifacts:
        for task in told["tasks"]:
            del task["artifacts"]
    return told


def _json(call: Call, body: bytes) -> Any:
    return json_of(call.request, body, (JSON, A2A_JSON_MEDIA_TYPE))


def _parsed(operation: Operation, given: Any) -> ProtoMessage:
    if not isinstance(given, dict):
        raise InvalidParamsError("the parameters are an object")
    try:
        return ParseDict(given, operation.takes(), ignore_unknown_fields=True)
    except (ParseError, ValueError, TypeError) as error:
        raise InvalidParamsError(str(error)[:LONGEST_REASON]) from None


def _check_version(call: Call) -> None:
    given = call.request.headers.get(VERSION_HEADER) or call.query(VERSION_HEADER) or PROTOCOL_VERSION_0_3
    if given.partition(".")[0] != MAJOR:
        raise VersionNotSupportedError(
            f"A2A 1.0 is spoken here: send `{VERSION_HEADER}: 1.0`; without it 0.3 is meant"
        )


def _refusal(error: Exception) -> tuple[A2AError, Problem | None]:
    """An error as the protocol has it, and the problem where the status of HTTP says more."""
    if isinstance(error, A2AError):
        return error, None
    problem = problem_of(error) if isinstance(error, CallboardError) else error
    if not isinstance(problem, Problem):
        raise error
    other = InternalError if problem.status >= 500 else InvalidRequestError
    return REFUSED.get(problem.status, other)(problem.detail), problem


def _as_json(told: Mapping[str, Any], status: int, media_type: str, headers: Mapping[str, str]) -> Response:
    return Response(json.dumps(told), status, {**SAFE, **headers}, media_type=media_type)
