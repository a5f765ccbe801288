"""A plugin of pytest that runs AutoGen's own tests on our bus: where they make a runtime they get ours.

Tests that bring a runtime inside of the team (`embedded`) have nothing to do with ours and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from callboard.interop.autogen import CallboardRuntime
from tests.helpers.servers import ServerProcess

_servers: list[ServerProcess] = []


class OurRuntime(CallboardRuntime):
    """Takes what SingleThreadedAgentRuntime takes. Each is in a namespace of its own, because none is named."""

    def __init__(
        self,
        *,
        intervention_handlers: Sequence[Any] | None = None,
        tracer_provider: Any = None,
        ignore_unhandled_exceptions: bool = True,
    ) -> None:
        if not _servers:
            _servers.append(ServerProcess().__enter__())
        super().__init__(
            _servers[0].url,
            intervention_handlers=intervention_handlers,
            ignore_unhandled_exceptions=ignore_unhandled_exceptions,
        )

    async def stop(self) -> None:
        await super().stop()
        await self.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        module = getattr(item, "module", None)
        if hasattr(module, "SingleThreadedAgentRuntime"):
            module.SingleThreadedAgentRuntime = OurRuntime  # type: ignore[union-attr]
    items[:] = [item for item in items if "embedded" not in item.nodeid]


def pytest_sessionfinish() -> None:
    for server in _servers:
        server.__exit__(None, None, None)
