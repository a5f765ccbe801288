"""One import name: what is built and installed, and that the files of an app may be called as they like."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers.servers import ServerProcess

ROOT = Path(__file__).resolve().parents[2]
LINKS = ("actors", "broker", "memory")
EXAMPLES = ("examples/assistant/", "examples/digest/")
DEMO_FILES = "callboard/cli/demo-files/"
USUAL_NAMES = ("actors", "agents", "broker", "cli", "errors", "memory", "models", "process", "teams", "tools")

SCRIPT = """
import asyncio
import sys

from app import HowMany, Visit, app
from callboard import AgentId, TopicId


async def main() -> None:
    async with app.running() as runtime:
        await runtime.publish_message(Visit(name="Ada"), TopicId("visits", "script"))
        await runtime.stop_when_idle()
    async with app.running() as runtime:
        print(await runtime.send_message(HowMany(), AgentId("counter", "script")))
    print(sys.modules["callboard"].__file__)


asyncio.run(main())
"""


@dataclass(frozen=True)
class Installation:
    """A way in which Callboard is there.

    Attributes:
        command: The command line.
        path: The folder that `callboard` is imported from.
    """

    command: tuple[str, ...]
    path: Path


@dataclass(frozen=True)
class Folder:
    """A folder in which commands are run with one installation."""

    path: Path
    installation: Installation
    environ: Mapping[str, str]

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command, cwd=self.path, env=self.environ, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def callboard(self, *arguments: str) -> str:
        return self.run(*self.installation.command, *arguments)

    @contextlib.contextmanager
    def running(self, *arguments: str) -> Iterator[None]:
        """Runs a command beside the test; asked to stop, it has to end well."""
        process = subprocess.Popen(
            (*self.installation.command, *arguments),
            cwd=self.path,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield
            process.send_signal(signal.SIGTERM)
            output, _ = process.communicate(timeout=30)
            assert process.returncode == 0, output
        finally:
            process.kill()
            process.communicate()


@pytest.fixture
def server() -> Iterator[ServerProcess]:
    with ServerProcess() as running:
        yield running


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, the wheel that is made of it, and in direct/ the wheel of the checkout."""
    folder = tmp_path_factory.mktemp("built")
    sdist = folder / _build("sdist", ROOT, folder)
    with tarfile.open(sdist) as archive:
        # An argument for it is not in every Python 3.11.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder / "unpacked")
    [source] = (folder / "unpacked").iterdir()
    _build("wheel", source, folder)
    _build("wheel", ROOT, folder / "direct")
    return folder


def _build(kind: str, source: Path, target: Path) -> str:
    target.mkdir(exist_ok=True)
    code = f"import sys; from hatchling.build import build_{kind} as build; print(build(sys.argv[1]))"
    done = subprocess.run(
        (sys.executable, "-P", "-c", code, str(target)),
        cwd=source,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def wheel(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The wheel, installed by pip; its requirements are those of this environment."""
    site = tmp_path_factory.mktemp("site")
    [file] = built.glob("*.whl")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile")
    subprocess.run((*pip, "--target", str(site), str(file)), check=True, capture_output=True)
    return Installation((str(site / "bin" / "callboard"),), site)


@pytest.fixture
def checkout() -> Installation:
    return Installation((sys.executable, "-m", "callboard"), ROOT)


@pytest.fixture(params=["checkout", "wheel"])
def folder(request: pytest.FixtureRequest, server: ServerProcess, tmp_path: Path) -> Folder:
    """A folder with nothing in it."""
    installation: Installation = request.getfixturevalue(request.param)
    environ = {
        **{name: value for name, value in os.environ.items() if name != "REDIS_URL"},
        "PYTHONPATH": str(installation.path),
        "CALLBOARD_URL": server.url,
        "NO_COLOR": "1",
    }
    return Folder(tmp_path, installation, environ)


def test_the_files_of_an_app_may_have_any_name(folder: Folder) -> None:
    shutil.copy(ROOT / "examples" / "counting.py", folder.path / "app.py")
    (folder.path / "script.py").write_text(SCRIPT)
    for name in USUAL_NAMES:
        (folder.path / f"{name}.py").write_text("raise SystemExit(f'{__file__} was imported')\n")
    for command in ("up", "worker"):
        with folder.running(command, "app:app"):
            said = folder.callboard("publish", "app:app", "visits", "Visit", "name=Ada", "--key", command)
            assert said == f"published 1 Visit to visits/{command}\n"
            count = folder.callboard("ask", "app:app", f"counter/{command}", "HowMany", "--timeout", "20")
            assert count == "Count total=1\n"
    counted, imported = folder.run(sys.executable, "script.py").splitlines()
    assert counted == "total=1"
    assert Path(imported).parent.parent == folder.installation.path


def test_the_demo_runs_in_an_empty_folder(folder: Folder) -> None:
    (folder.path / "digest.py").write_text("raise SystemExit(f'{__file__} was imported')\n")
    url = folder.environ["CALLBOARD_URL"]
    report = json.loads(folder.callboard("demo", "--pace", "0", "--kill", "--json", "--url", url))
    assert (report["exact"], report["results"]) == (True, 10)


@pytest.mark.parametrize("name", LINKS)
def test_a_folder_of_ours_is_not_loaded_under_a_second_name(name: str) -> None:
    if not (ROOT / name).is_symlink():
        pytest.skip("git makes no links here: there is no second name")
    done = subprocess.run(
        (sys.executable, "-c", f"import callboard.broker, callboard.memory, {name}"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    meant = "callboard" if name == "actors" else f"callboard.{name}"
    assert done.returncode == 1
    assert f"ImportError: this folder is the source of `{meant}`: import that" in done.stderr


def test_a_wheel_holds_one_package_and_all_of_it(built: Path) -> None:
    [wheel], [direct] = built.glob("*.whl"), (built / "direct").glob("*.whl")
    assert wheel.read_bytes() == direct.read_bytes()
    names = set(zipfile.ZipFile(wheel).namelist())
    installed = {name for name in names if ".dist-info/" not in name}
    assert {name.partition("/")[0] for name in names - installed} == {"callboard-0.1.0.dist-info"}
    assert installed == _sources()


def _sources() -> set[str]:
    """What is to be installed, as it is named in a wheel."""
    listed = subprocess.run(
        ("git", "ls-files", "--cached", "--others", "--exclude-standard", "callboard", *EXAMPLES),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return {_installed_name(name) for name in listed if (ROOT / name).is_file()}


def _installed_name(name: str) -> str:
    if name.startswith(EXAMPLES):
        return f"{DEMO_FILES}{name.removeprefix('examples/')}"
    return name
