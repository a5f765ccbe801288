"""`callboard memory`, as a person would use it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import signal
import subprocess
from pathlib import Path

import pytest

from callboard.cli import main
from callboard.memory.chroma_collection import INDEX
from callboard.memory.chroma_index import MAP
from callboard.memory.local_embedders import default_model_folder
from tests.helpers.eventually import eventually
from tests.helpers.processes import Process, python

from .commands import ShopFolder

WORDS = ("--model", "hashing")

SERVED = """
from callboard import App
from callboard.memory_service import memory_service
from callboard.memory import HashingEmbedder

app = App("recall")
memory_service(app, embedder=HashingEmbedder())
bare = App("bare")
"""


def callboard(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a command here, in the folder: most commands do little, and a process takes long to start."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            main(["memory", *words])
        except SystemExit as end:
            code = int(end.code or 0)
    return subprocess.CompletedProcess(words, code, output.getvalue(), errors.getvalue())


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "fruit.md").write_text("# Fruit\n\nApples are red.\n\n## Pears\n\nPears are green.\n")
    (folder / "tools.txt").write_text("A hammer drives nails.\n")
    return tmp_path


def test_import_query_stats_and_clear(notes: Path) -> None:
    done = callboard(notes, "import", "notes", *WORDS)
    assert (done.returncode, done.stdout) == (0, "2 documents in 3 pieces: 3 new, 0 known, 0 removed\n"), (
        done.stderr
    )

    (notes / "notes" / "fruit.md").write_text("# Fruit\n\nApples are red.\n\nFigs are blue.\n")
    done = callboard(notes, "import", "notes", *WORDS)
    assert done.stdout == "2 documents in 2 pieces: 1 new, 1 known, 2 removed\n"

    done = callboard(notes, "query", "what drives nails", "-k", "1", "--json", *WORDS)
    (found,) = json.loads(done.stdout)
    assert found["content"] == "A hammer drives nails."
    assert found["metadata"]["source"] == "notes/tools.txt"
    done = callboard(notes, "query", "figs", "--where", "source=notes/fruit.md", *WORDS)
    assert done.stdout.splitlines()[0].endswith("  notes/fruit.md, piece 1")
    done = callboard(notes, "query", "figs", "--threshold", "0.999", *WORDS)
    assert done.stdout.startswith("nothing was found; ")

    (line,) = callboard(notes, "stats").stdout.splitlines()[1:]
    assert line.split() == ["default", "main", "2", "hashing-256", "cosine"]

    assert callboard(notes, "clear", "--source", "notes/tools.txt", "-y").stdout == "forgot 1 memory\n"
    assert callboard(notes, "clear", "--yes").stdout == "forgot 1 memory\n"
    assert json.loads(callboard(notes, "stats", "--json").stdout) == []


def test_verify_tells_and_mends(notes: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(INDEX, "sync_threshold", 1)
        callboard(notes, "import", "notes", *WORDS)
    done = callboard(notes, "verify")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "every memory is found"), done.stderr

    for file in (notes / ".callboard" / "memory").glob(f"*/{MAP}"):
        file.unlink()
    done = callboard(notes, "verify", "--dry-run")
    assert done.returncode == 1
    lost = int(done.stdout.splitlines()[1].split()[3])
    assert lost > 0
    assert "run it without --dry-run" in done.stdout
    done = callboard(notes, "verify", "--json")
    (check,) = json.loads(done.stdout)
    assert (done.returncode, check["count"], check["lost"], check["left"]) == (0, 3, lost, 0)
    assert callboard(notes, "verify").stdout.splitlines()[1].split() == ["default", "main", "3", "0", "0"]


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("query", "x"), 2, "there is no memory in .callboard/memory: `callboard memory import` makes one"),
        (("stats", "--path", "no"), 2, "there is no memory in no"),
        (("import", "no.md"), 2, "no.md does not exist"),
        (("import", "notes", "--size", "5"), 2, "size=5 can't work: it must be 20 or more"),
        (("import", "notes", "--size", "300"), 2, "size=300 can't work: it must be at most the 254 tokens"),
        (
            ("query", "x", "--chroma", "http://127.0.0.1:1"),
            3,
            "the memory at http://127.0.0.1:1 can't be reached",
        ),
        (("query", "x", "--chroma", "nonsense"), 2, "url='nonsense' can't work"),
        (("query", "x", "--where", "a"), 2, "'a' is not of the form field=value"),
        (("stats", "--path", "a", "--chroma", "http://b"), 2, "give one of --app, --path and --chroma"),
        (("query", "x", "--app", "a:b", "--model", "hashing"), 2, "--model goes without --app"),
        (("clear",), 2, "this forgets what default remembers: add --yes"),
    ],
)
def test_wrong_use_gets_a_sentence(notes: Path, words: tuple[str, ...], code: int, sentence: str) -> None:
    done = callboard(notes, *words)

    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    if "no.md" not in words:
        assert done.returncode == code
    assert not (notes / ".callboard").exists()


def test_another_model_is_refused(notes: Path) -> None:
    callboard(notes, "import", "notes", *WORDS)
    folder = default_model_folder()

    done = callboard(notes, "query", "x", "--model", str(folder))

    assert done.returncode == 1
    assert "was made with hashing-256 (256 numbers) and this process uses" in done.stderr


async def test_ctrl_c_leaves_nothing_of_a_document_behind(notes: Path) -> None:
    text = "\n\n".join(f"# Part {number}\n\nIt says {number} things." for number in range(20_000))
    (notes / "long.md").write_text(text)
    store = notes / "store"
    command = python(
        "-m", "callboard", "memory", "import", str(notes / "long.md"), "--path", str(store), *WORDS
    )
    process = Process(command)
    try:
        await eventually((store / "chroma.sqlite3").exists, 60, what=process.output)
        process.signal(signal.SIGINT)
        assert await process.ended(60) == 130
        assert process.output() == "callboard: stopped after 0 of 1 documents; run it again to go on\n"
    finally:
        process.close()

    done = await asyncio.to_thread(callboard, notes, "stats", "--path", "store", "--json")
    assert [one["count"] for one in json.loads(done.stdout)] in ([], [0]), done.stderr


def test_through_a_memory_service(notes: Path, shop: ShopFolder) -> None:
    (shop.folder / "recall.py").write_text(SERVED)
    with shop.started("worker", "recall:app") as worker:
        worker.shows("works as", within=60)
        done = shop.run("memory", "import", "notes", "--app", "recall:app")
        assert done.stdout == "2 documents in 3 pieces: 3 new, 0 known, 0 removed\n", done.stderr
        assert "A hammer drives nails." in shop.out(
            "memory", "query", "nails", "-k", "1", "--app", "recall:app"
        )
        (line,) = shop.out("memory", "stats", "--app", "recall:app").splitlines()[1:]
        assert line.split()[:3] == ["default", "recall", "3"]
        *_, row, verdict = shop.out("memory", "verify", "--app", "recall:app").splitlines()
        assert (row.split(), verdict) == (["default", "recall", "3", "0", "0"], "every memory is found")
        assert "has the memory in" in shop.run("memory", "stats").stderr
    done = shop.run("memory", "stats", "--app", "recall:bare")
    assert "the app bare has no memory: give it one with memory_service(app)" in done.stderr
