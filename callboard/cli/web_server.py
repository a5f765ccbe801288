"""The web server of a command, which ends by Ctrl-C or SIGTERM while clients read."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from typing import Any, Final

from callboard.foundation import MissingPackageError

GRACE: Final = 5  # seconds for what is under way when the process ends


def check_installed() -> None:
    """Refuse to begin without the extra `web`.

    Raises:
        MissingPackageError: It is not installed (an ImportError).
    """
    try:
        import uvicorn as _  # noqa: F401
    except ImportError:
        raise MissingPackageError("uvicorn", "web") from None


async def listen(door: Any, host: str, port: int, say_where: Callable[[str], None]) -> bool:
    """Serve until this process is told to end.

    Args:
        door: The application; its `state.streams` are closed first.
        host: Where to listen.
        port: Where to listen; 0: at a free one.
        say_where: Called with each address when it listens there.

    Returns:
        Whether it could listen there.
    """
    import uvicorn

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: Any) -> None:
            # Streams have no end of their own: their clients go on at another process.
            door.state.streams.closing.set()
            # Not the one of uvicorn: it would end this process by the signal, when all is done.
            self.force_exit |= self.should_exit and sig == signal.SIGINT
            self.should_exit = True

        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            for server in self.servers:
                address, bound = server.sockets[0].getsockname()[:2]
                say_where(f"http://{address}:{bound}")

    server = Server(
        uvicorn.Config(
            door,
            host=host,
            port=port,
            lifespan="off",
            access_log=False,
            log_config=None,
            log_level=logging.WARNING,
            server_header=False,
            timeout_graceful_shutdown=GRACE,
        )
    )
    await server.serve()
    return server.started
