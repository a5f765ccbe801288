"""Runs the code of README.md and docs/: python blocks as scripts, console blocks on a real server.

A python block whose first line is `# name.py` is written to a file of that name. In a console block the lines
behind a command say what it prints, see `blocks.matches`; a command that only looks is repeated until they
are right, because other processes do the work. `callboard up` and `callboard worker` go on until `^C` or the end.
Clients of models reach a server of the tests, without a key.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hiredis
import pytest

from callboard.cli.commands.server import formatted
from tests.helpers.openai_server import OpenAIServer
from tests.helpers.sensible import SensibleModel
from tests.helpers.servers import ServerProcess
from tests.helpers.warm_commands import SCRIPT, warm_commands, warm_scripts

from .blocks import ENTRY, LANGUAGES, WORKER, Block, Command, blocks_of, commands_of, matches

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BACKGROUND = ("up", "worker")
LOOKING = ("status", "topics", "ask", "dead list", "dead show", "tail")
PATIENCE = 20.0  # seconds until what is printed has to be right


def _id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="module")
def server() -> Iterator[Path]:
    """A redis-server, or the valkey-server that is always there; gives its socket."""
    with ServerProcess() as process:
        yield process.path


@pytest.fixture(scope="module")
def models() -> Iterator[OpenAIServer]:
    """A server with OpenAI's API, so that examples with models run without a key."""
    with OpenAIServer(SensibleModel()) as running:
        yield running


class RawClient:
    """Commands, one at a time, for tests that are not asynchronous. Errors of the server are raised."""

    def __init__(self, path: Path) -> None:
        self._reader = hiredis.Reader()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(10)
        self._socket.connect(str(path))

    def call(self, *words: str | bytes | int) -> Any:
        self._socket.sendall(hiredis.pack_command(words))  # type: ignore[arg-type]
        while (answer := self._reader.gets()) is False:
            self._reader.feed(self._socket.recv(65536))
        if isinstance(answer, hiredis.ReplyError):
            raise answer
        return answer

    def close(self) -> None:
        self._socket.close()


def _checked(done: subprocess.CompletedProcess[str], where: str) -> str:
    assert done.returncode == 0, f"{where} exits with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


class Reader:
    """Does what a page says, as a reader would: in a folder of its own, on a server of its own."""

    def __init__(self, folder: Path, server: Path, models: OpenAIServer) -> None:
        self._folder = folder
        self._server = server
        self._client = RawClient(server)
        self._running: list[subprocess.Popen[bytes]] = []
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("CALLBOARD_")},
            "CALLBOARD_URL": f"unix://{server}",
            "OPENAI_BASE_URL": models.url,
            "OPENAI_API_KEY": "sk-none",
            "PYTHONPATH": str(ROOT),
            "COLUMNS": "200",
            "NO_COLOR": "1",
        }
        self._client.call("FLUSHALL")

    def close(self) -> None:
        while self._running:
            self._interrupt()
        self._client.close()

    # Blocks

    def do(self, block: Block) -> None:
        """Does what one block says."""
        if block.not_run or block.language not in ("python", "console"):
            return
        if block.language == "python":
            self._run_python(block)
            return
        for command in commands_of(block):
            self._run_command(command, f"{block.page.name}:{command.line}")

    def _run_python(self, block: Block) -> None:
        if block.file_name:
            (self._folder / block.file_name).write_text(block.text + "\n", "utf-8")
            return
        script = self._folder / f"block_{block.line}.py"
        script.write_text(block.text + "\n", "utf-8")
        done = warm_scripts().run([SCRIPT, script.name], self._folder, self._environment, "", timeout=60)
        _checked(done, f"{block.page.name}:{block.line}")

    def _run_command(self, command: Command, where: str) -> None:
        if command.text == "^C":
            self._interrupt()
            return
        words = shlex.split(self._with_real_names(command.text), comments=True)
        if words[0] == "kill":
            os.kill(int(words[-1]), signal.SIGKILL)
        elif words[0] == "callboard" and words[1] in BACKGROUND:
            self._start([sys.executable, "-m", "callboard", *words[1:]], where)
        else:
            self._check(words, command, where)

    def _check(self, words: list[str], command: Command, where: str) -> None:
        """Runs a command; one that only looks until it prints what the page says."""
        deadline = time.monotonic() + PATIENCE
        while True:
            printed = self._run(words, where)
            if not command.expected or matches(command.expected, printed):
                return
            looks = words[0] == "redis-cli" or " ".join(words[1:]).startswith(LOOKING)
            said = "\n".join(command.expected)
            if not looks or time.monotonic() > deadline:
                pytest.fail(f"{where} prints\n{printed}\nand not\n{said}")
            time.sleep(0.1)

    def _run(self, words: list[str], where: str) -> str:
        """Runs a command; what it prints. Where redis-cli is not installed, `callboard server cli` prints the same."""
        if words[0] == "callboard":
            return _checked(
                warm_commands().run(words[1:], self._folder, self._environment, "", timeout=60), where
            )
        if words[0] == "python":
            return self._run_to_end([sys.executable, *words[1:]], where)
        assert words[0] == "redis-cli", f"{where}: a test can't run {words[0]}"
        if shutil.which("redis-cli") is None:
            return formatted(self._client.call(*words[1:])) + "\n"
        return self._run_to_end(["redis-cli", "--no-raw", "-e", "-s", str(self._server), *words[1:]], where)

    def _run_to_end(self, words: list[str], where: str) -> str:
        done = subprocess.run(
            words,
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return _checked(done, where)

    # Processes

    def _start(self, words: list[str], where: str) -> None:
        with (self._folder / "output.txt").open("ab") as output:
            self._running.append(
                subprocess.Popen(
                    words,
                    cwd=self._folder,
                    env=self._environment,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            )
        deadline = time.monotonic() + PATIENCE
        while not self._workers():
            said = (self._folder / "output.txt").read_text("utf-8")
            assert self._running[-1].poll() is None, f"{where} ended:\n{said}"
            assert time.monotonic() < deadline, f"{where} has no worker:\n{said}"
            time.sleep(0.05)

    def _interrupt(self) -> None:
        """Ctrl-C, and once more: nobody waits for a handler that sleeps."""
        process = self._running.pop()
        for patience in (1.0, 5.0):
            process.send_signal(signal.SIGINT)
            try:
                process.wait(patience)
                return
            except subprocess.TimeoutExpired:
                continue
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    # Names that are different each time

    def _workers(self) -> list[str]:
        names = []
        for key in self._client.call("KEYS", "callboard:*:workers"):
            names += [name.decode() for name in self._client.call("ZRANGE", key, 0, -1)]
        return names

    def _with_real_names(self, text: str) -> str:
        """The command with a worker, process or dead letter that exists in place of the page's."""
        if WORKER in text or text.startswith("kill "):
            worker = self._workers()[0]
            text = text.replace(WORKER, worker)
            text = re.sub(r"^kill -9 \d+", f"kill -9 {worker.split(':')[1]}", text)
        return re.sub(rf"(\w+)/{ENTRY}", lambda found: f"{found[1]}/{self._letter(found[1])}", text)

    def _letter(self, agent_type: str) -> str:
        (key,) = self._client.call("KEYS", f"callboard:*:dead:{agent_type}")
        letter: bytes = self._client.call("XREVRANGE", key, "+", "-", "COUNT", 1)[0][0]
        return letter.decode()


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_the_code_on_a_page_works(page: Path, tmp_path: Path, server: Path, models: OpenAIServer) -> None:
    reader = Reader(tmp_path, server, models)
    try:
        for block in blocks_of(page):
            reader.do(block)
    finally:
        reader.close()


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_every_block_says_what_it_is(page: Path) -> None:
    for block in blocks_of(page):
        assert block.language in LANGUAGES, (
            f"{page.name}:{block.line}: {block.language!r} is not run by any test"
        )
        if block.language in ("python", "console", "ini"):
            continue
        assert "callboard " not in block.text, (
            f"{page.name}:{block.line}: commands belong into a console block"
        )


def _anchors(page: Path) -> set[str]:
    """What can stand behind `#` in a link to a page: its headings, written as renderers of Markdown write them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#{1,6} (.+)$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=_id)
def test_links_inside_the_project_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text("utf-8")):
        path = page.parent / target if target else page
        assert path.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in _anchors(path), f"{page.name} links to {target}#{anchor}"


@pytest.mark.parametrize("page", PAGES[1:], ids=_id)
def test_the_index_names_every_page(page: Path) -> None:
    index = (ROOT / "docs" / "README.md").read_text("utf-8")
    assert page.name == "README.md" or f"]({page.name})" in index


@pytest.mark.parametrize("page", PAGES[1:], ids=_id)
def test_a_page_begins_with_whom_it_serves(page: Path) -> None:
    _, _, text = page.read_text("utf-8").partition("\n\n")
    assert text.startswith("For ")


def test_the_readme_is_short() -> None:
    """It is all that most strangers read."""
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 700


def test_the_picture_of_the_code_has_every_room() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    named = {name.rstrip("/") for name in re.findall(r"`(callboard(?:/\w+)*/?)`", page)}
    modules = [path for kind in ("*.py", "*.lua") for path in (ROOT / "callboard").rglob(kind)]
    rooms = {str(path.parent.relative_to(ROOT)) for path in modules}

    assert rooms - named == set(), "not named"
    assert [name for name in named if not (ROOT / name).is_dir()] == [], "named and not there"


FILE = re.compile(r"\bsee (?:`\w+` of )?(\w+\.(?:py|lua))\b|`((?:callboard|scripts|tests)/[\w/.]+)`")


def test_files_that_are_named_are_there() -> None:
    """In pages and in the source: a reader who follows a pointer that leads nowhere has lost the way."""
    sources = [path for kind in ("*.py", "*.lua") for path in (ROOT / "callboard").rglob(kind)]
    known = {path.name for path in sources}
    lost = [
        f"{page.relative_to(ROOT)} names {seen or path}"
        for page in [*PAGES, ROOT / "CONTRIBUTING.md", *sources]
        for seen, path in FILE.findall(page.read_text("utf-8"))
        if (seen and seen not in known) or (path and not (ROOT / path).exists())
    ]

    assert lost == []


def _defined_in(file: Path) -> set[str]:
    """Names of the functions and classes of a module, attributes of a class among them, as `name` and `Class.name`."""
    names: set[str] = set()
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.AnnAssign | ast.Assign):
            targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            names.update(target.id for target in targets if isinstance(target, ast.Name))
        if isinstance(node, ast.ClassDef):
            names.update(
                f"{node.name}.{name}" for name in re.findall(r"(?:def |self\.)(\w+)", ast.unparse(node))
            )
    return names


def test_every_step_in_the_life_of_a_message_is_there() -> None:
    page = ROOT / "docs" / "life-of-a-message.md"
    steps = re.findall(r"\[([A-Za-z_.]+)\]\((\.\./\w[\w/]+\.py)\)", page.read_text("utf-8"))
    assert len(steps) > 20
    assert [step for step in steps if step[0] not in _defined_in(page.parent / step[1])] == []


def test_the_readme_shows_the_example_that_is_shipped() -> None:
    shown = next(block for block in blocks_of(ROOT / "README.md") if block.file_name == "counting.py")

    assert shown.text.strip() == (ROOT / "examples" / "counting.py").read_text("utf-8").strip()


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        (("a  b",), "a b\n", True),
        (("a ... c",), "a b c\n", True),
        (("...", "last"), "one\ntwo\nlast\n", True),
        (("...",), "", True),
        (("1763700000000-0",), "1790000000000-12\n", True),
        (("laptop:4711:k3x0p9qa:1",), "host.example:17:0a1b2c3d:230\n", True),
        (("a",), "a\nb\n", False),
        (("a.c",), "abc\n", False),
    ],
)
def test_what_counts_as_the_same_output(expected: tuple[str, ...], printed: str, same: bool) -> None:
    assert matches(expected, printed) is same


def test_hiredis_errors_are_not_taken_for_answers(server: Path) -> None:
    client = RawClient(server)
    with pytest.raises(hiredis.ReplyError):
        client.call("NO-SUCH-COMMAND")
    client.close()
