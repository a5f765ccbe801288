"""Arguments that a server refuses for a model: left out from then on, as long as the process lives.

Which models take a temperature changes with each generation, and with the effort that is asked for; no table knows it of
a server of one's own. The server says it in its first answer, which costs no tokens. What decides the form or the meaning of
an answer (tools, response_format, stop, n) is never left out.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from callboard.models.errors import UnsupportedParameterError

T = TypeVar("T")

logger = logging.getLogger("callboard.models")

LEFT_OUT: Final = frozenset(
    {
        "temperature",
        "top_p",
        "presence_penalty",
        "frequency_penalty",
        "logprobs",
        "top_logprobs",
        "logit_bias",
        "seed",
        "parallel_tool_calls",
        "reasoning_effort",
        "verbosity",
    }
)
RENAMED: Final[Mapping[str, str]] = {"max_tokens": "max_completion_tokens"}
ANY: Final = object()  # value of an argument that is refused whatever its value is

Refusals = set[tuple[str, Any]]


class AcceptedArguments:
    """The arguments that a server takes for a model, as far as this process has learned.

    Args:
        model: its name.
        address: of the server.
    """

    _refused: Final[dict[tuple[str, str], Refusals]] = {}  # of all clients of this process

    def __init__(self, model: str, address: str) -> None:
        self._model = model
        self._address = address

    async def send(self, arguments: Mapping[str, Any], ask: Callable[[Mapping[str, Any]], Awaitable[T]]) -> T:
        """The result of `ask` with what the server takes of the arguments.

        A request is made again when the server has refused one of them: each time with one argument less, and only then.

        Raises:
            UnsupportedParameterError: what is refused can't be left out.
        """
        while True:
            sent = self._taken(arguments)
            try:
                return await ask(sent)
            except UnsupportedParameterError as error:
                name = error.parameter
                # It is made again only with less than before, so it ends.
                if name not in sent or not (name in LEFT_OUT or name in RENAMED):
                    raise
                self._learn(name, sent[name], error)

    def _taken(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        refused = self._refused.get((self._address, self._model))
        if refused is None:
            return arguments
        taken = {}
        for name, value in arguments.items():
            if (name, ANY) not in refused and (name, repr(value)) not in refused:
                taken[name] = value
            elif other := RENAMED.get(name):
                taken.setdefault(other, value)
        return taken

    def _learn(self, name: str, value: Any, error: UnsupportedParameterError) -> None:
        refused = self._refused.setdefault((self._address, self._model), set())
        refused.add((name, repr(value) if error.is_value else ANY))
        done = f"sent as {RENAMED[name]}" if name in RENAMED else "left out"
        logger.warning(
            "%s at %s refuses %s=%r, which is %s from now on: %s",
            self._model,
            self._address,
            name,
            value,
            done,
            error.reason,
        )
