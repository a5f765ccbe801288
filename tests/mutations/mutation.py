"""One way to break the code on purpose, and a copy of the package in which it is broken."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple, Self

from tests.helpers.servers import best_kind

from .change import Change
from .guard import Guard, guards

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("callboard", "tests")
BACKEND = f"{best_kind()}-unix"
FENCING = "contract/test_fencing.py::"
FENCES = "contract/test_fences.py::"
ACTIVATION = "contract/test_activation.py::"
COMMIT = "contract/test_commit.py::"
REAPING = "contract/test_reaping.py::"
SUSPECTS = "contract/test_suspects.py::"
ORDER = "contract/test_order.py::"
PUBLISH = "contract/test_publish.py::"
TRIMMING = "contract/test_trimming.py::"
PAUSING = "contract/test_pausing.py::"
SUBSCRIBING = "contract/test_subscribing.py::"
LOSS = "contract/test_server_loss.py::"
TAIL = "contract/test_tail_loss.py::"
SCHEDULES = "contract/model/test_schedules.py::"
WORLD = "contract/model/test_world.py::"
ON = "[{backend}]"


class Mutation(NamedTuple):
    """A small change of one guarded statement that breaks the promise.

    Attributes:
        name: what is broken.
        guard: the statement, by the name that its comment gives it.
        change: what becomes of it.
        tests: every one of them has to fail; `{backend}` stands for the fastest server.
        quick: is part of the tests; all of them are tried by `scripts/proof --mutations`.
    """

    name: str
    guard: str
    change: Change
    tests: tuple[str, ...]
    quick: bool = True

    @property
    def test_ids(self) -> list[str]:
        return [f"tests/{test}".replace("{backend}", BACKEND) for test in self.tests]

    def find(self, root: Path) -> Guard:
        """The guarded statement under `root`.

        Raises:
            ValueError: no statement, or more than one, is marked with this name.
        """
        found = [guard for guard in guards(root) if guard.name == self.guard]
        if len(found) != 1:
            raise ValueError(f"{self.name}: {len(found)} statements are marked as {self.guard!r}")
        return found[0]


class Verdict(NamedTuple):
    """What the tests of a mutation said."""

    name: str
    failed: frozenset[str]
    passed: frozenset[str]
    output: str

    @property
    def is_caught(self) -> bool:
        """All tests ran, and failed."""
        return bool(self.failed) and not self.passed


class Workplace:
    """A copy of the package and tests, to be broken again and again. The checkout itself is never touched."""

    def __init__(self, folder: Path) -> None:
        self._root = folder
        for name in COPIED:
            shutil.copytree(ROOT / name, folder / name)
        shutil.copy2(ROOT / "pyproject.toml", folder)
        self._runner: subprocess.Popen[str] | None = None

    def try_out(self, mutation: Mutation) -> Verdict:
        """Breaks the copy, runs the tests of the mutation, mends the copy."""
        guard = mutation.find(self._root)
        whole = guard.path.read_text("utf-8")
        guard.path.write_text(guard.text_with(mutation.change(guard)), "utf-8")
        try:
            return self.run(mutation.name, mutation.test_ids)
        finally:
            guard.path.write_text(whole, "utf-8")

    def run(self, name: str, tests: list[str]) -> Verdict:
        """Runs tests in the copy.

        Raises:
            RuntimeError: they could not be run, or hang.
        """
        code, output = self._ask(tests)
        failed = _asked_for(tests, _listed("FAILED", output))
        passed = _asked_for(tests, _listed("PASSED", output)) - failed
        if code not in (0, 1) or failed | passed != frozenset(tests):
            raise RuntimeError(
                f"{name}: the tests could not be run, or hang\n{output[:200] + output[-1500:]}"
            )
        return Verdict(name, failed, passed, output)

    def _ask(self, tests: list[str]) -> tuple[int, str]:
        if self._runner is None:
            self._runner = subprocess.Popen(
                [sys.executable, "-m", "tests.mutations.runner"],
                cwd=self._root,
                env={**os.environ, "MODEL_SHRINK": "0", "PYTHONPATH": str(self._root)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._runner.stdin is not None
        assert self._runner.stdout is not None
        self._runner.stdin.write(json.dumps(tests) + "\n")
        self._runner.stdin.flush()
        answer = self._runner.stdout.readline()
        if not answer:
            raise RuntimeError("the process that runs the tests has ended")
        code, output = json.loads(answer)
        return int(code), str(output)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the process that runs the tests."""
        if self._runner is not None:
            self._runner.communicate(timeout=30)
            self._runner = None


def _asked_for(tests: list[str], listed: frozenset[str]) -> frozenset[str]:
    """Those of which a case is listed; a test that is asked for without a parameter stands for all its cases."""
    whole = {test.partition("[")[0] for test in listed}
    return frozenset(test for test in tests if test in listed or test in whole)


def _listed(word: str, output: str) -> frozenset[str]:
    """Tests of the summary; a parameter may have spaces in it."""
    found = re.findall(rf"^{word} (\S+\.py::[^\[\s]+(?:\[[^\]]*\])?)", output, re.MULTILINE)
    return frozenset(found)
