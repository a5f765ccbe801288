"""The log of a worker: where each line was written in a handler, it says of which agent, and of which message.

An application that sets up logging itself, in the module of its app, keeps what it has set up; `HandlerFilter` is for it.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any, Final

from callboard.runtime.execution import current

FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s%(where)s"
OWN: Final = "callboard"
ONE_A_CALL: Final = ("httpx", "openai", "chromadb")
"""Libraries that write a line for each call; at INFO they are quiet."""


class HandlerFilter(logging.Filter):
    """Adds to each record the handler in which it was written; lets all of them through.

    ```python
    handler = logging.StreamHandler()
    handler.addFilter(HandlerFilter())
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s agent=%(agent)s message=%(message_id)s run=%(run)s"))
    ```

    The attributes are `agent`, `message_id`, `run` (id of the run that the message belongs to) and `where`, the first two in
    brackets behind a space; each "" outside of a handler. `where` is "" for Callboard's own lines as well, which name both
    where that says something.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the attributes."""
        execution = current.get()
        if execution is None:
            record.__dict__.update(agent="", message_id="", run="", where="")
            return True
        agent, message_id, run = str(execution.agent_id), execution.message_id, execution.context.run_id
        is_own = record.name.partition(".")[0] == OWN
        where = "" if is_own else f" [{agent}, {message_id}]"
        record.__dict__.update(agent=agent, message_id=message_id, run=run or "", where=where)
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object a line.

    It has `ts` (ISO 8601, UTC), `level`, `logger`, `message`, and, where known, `agent`, `message_id`, `run` and `error`.

    Args:
        **known: What all lines carry, such as the namespace.
    """

    def __init__(self, **known: str) -> None:
        super().__init__()
        self._known = known

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "ts": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{record.msecs:03.0f}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **self._known,
        }
        line.update(
            {key: value for key in ("agent", "message_id", "run") if (value := getattr(record, key, ""))}
        )
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        # ASCII: a lone surrogate, which no stream can write, is an escape.
        return json.dumps(line)


def keep_log(level: str, *, as_json: bool = False, namespace: str = "") -> None:
    """Write the log of this process to stderr, unless the application has set up its own.

    Args:
        level: The lowest level that is written, such as "INFO"; "DEBUG" is taken by the libraries of `ONE_A_CALL` as well.
        as_json: Each line is a JSON object.
        namespace: For lines that are JSON.
    """
    root = logging.getLogger()
    if root.handlers:
        return
    handler = logging.StreamHandler()
    handler.addFilter(HandlerFilter())
    handler.setFormatter(JsonFormatter(namespace=namespace) if as_json else logging.Formatter(FORMAT))
    root.addHandler(handler)
    root.setLevel(level)
    if root.level > logging.DEBUG:
        for name in ONE_A_CALL:
            library = logging.getLogger(name)
            if library.level == logging.NOTSET:
                library.setLevel(max(logging.WARNING, root.level))
