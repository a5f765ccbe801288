"""Fuzzing of everything that reads bytes of others, guided by the branches that it takes (atheris)."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MISSING = "atheris is not installed: `pip install atheris` (Linux and macOS, CPython). Nothing was fuzzed."
MODULES = (
    "limits",
    "msgpack_walk",
    "json_limits",
    "codec",
    "payload",
    "plain",
    "remote_errors",
    "registry",
    "shape",
)
LONGEST = 20_000  # bytes of an input
MEMORY = 1024  # MB


def run_fuzz(minutes: float, seed: str) -> bool:
    """True when nothing was found; False too where atheris is missing."""
    if importlib.util.find_spec("atheris") is None:
        print(MISSING)
        return False
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        _write_corpus(Path(folder))
        command = [
            *(sys.executable, "-m", "scripts.proofs.fuzz", folder, f"-max_total_time={int(minutes * 60)}"),
            *(f"-max_len={LONGEST}", f"-rss_limit_mb={MEMORY}", f"-seed={int(seed, 36) % 2**31 or 1}"),
            *(
                "-print_final_stats=1",
                "-timeout=20",
                f"-artifact_prefix={tempfile.gettempdir()}/callboard-fuzz-",
            ),
        ]
        print(f"{minutes:g} minutes of fuzzing, seed {seed}", flush=True)
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        inputs = len(list(Path(folder).iterdir()))
    executions = re.search(r"number_of_executed_units: (\d+)", done.stderr)
    if done.returncode != 0 or executions is None:
        print(f"FOUND\n{done.stderr[-6000:]}")
        return False
    number = int(executions[1])
    print(
        f"{number:,} inputs, {inputs:,} of them took a new branch, nothing found, {time.monotonic() - began:.0f} s"
    )
    return True


def _write_corpus(folder: Path) -> None:
    """Something of everything to begin with; the first byte chooses what reads it."""
    from callboard.broker.codec import packb
    from callboard.broker.remote_errors import encode_error
    from tests.helpers.fuzzing import REGISTRY, TARGETS, Part, Whole

    whole = Whole(
        number=1, text="t", raw=b"r", parts={"a": Part(name="p", weight=1.5, below=[Part(name="q")])}
    )
    bodies = [
        REGISTRY.entry_for(whole).encode(whole),
        whole.model_dump_json(exclude={"raw"}).encode(),
        packb(
            {"k": "request", "r": "p1", "h": ["a/b"], "d": 1, "v": 2, "x": {"a": "b"}, "e": True, "j": True}
        ),
        encode_error(ValueError("no", 1)),
        encode_error(UnicodeDecodeError("utf-8", b"x", 0, 1, "r")),
        b"id\xffWhole\xffkey\xffa/b\xff1\xff\xff{}",
        packb([1.5, None, True, -1, 2**63, b"raw", "text" * 20, {"a": [[]]}]),
    ]
    for number in range(len(TARGETS)):
        for place, body in enumerate(bodies):
            (folder / f"{number}-{place}").write_bytes(bytes([number]) + body)


def _main() -> None:
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=[f"broker.{name}" for name in MODULES]):
        from tests.helpers.fuzzing import TARGETS, read

    def one_input(data: bytes) -> None:
        if data:
            read(TARGETS[data[0] % len(TARGETS)], data[1:])

    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    _main()
