"""`callboard demo`: the same digest and exact counts, whatever is killed."""

from __future__ import annotations

import json
import shlex
import signal

import pytest

from .commands import ShopFolder, workers_in

TEXT = "\n\n".join(
    f"## Part {part}\n\n"
    + " ".join(
        f"Sentence {n} of part {part} tells what the stage hand number {n * part} does at night."
        for n in range(9)
    )
    for part in range(1, 14)
)


@pytest.fixture
def stage(shop: ShopFolder) -> ShopFolder:
    """A folder with a text."""
    (shop.folder / "text.md").write_text(f"# The stage\n\n{TEXT}\n", encoding="utf-8")
    return shop


def report(stage: ShopFolder, *options: str) -> dict[str, object]:
    done = stage.run(
        "demo", "text.md", "--url", stage.environ["CALLBOARD_URL"], "--json", *options, timeout=180
    )
    assert done.returncode == 0, done.stderr
    data: dict[str, object] = json.loads(done.stdout)
    return data


def test_the_digest_is_the_same_when_a_worker_is_killed(stage: ShopFolder) -> None:
    stage.environ["DIGEST_MODEL"] = "small"  # the option's own way to its workers
    plain = report(stage, "--pace", "0")
    assert {"model", "spent"}.isdisjoint(plain), "no model is asked without the option"
    killed = report(stage, "--kill", "--pace", "0.4")
    assert len(killed["killed"]) == 1  # type: ignore[arg-type] # a list
    assert plain["killed"] == []
    assert plain["digest"] == killed["digest"]
    for one in (plain, killed):
        types = {entry["type"]: entry["handled"] for entry in one["types"]}  # type: ignore[attr-defined] # a list
        assert types == {"splitter": 1, "worker": 30, "compiler": 30, "reviewer": 30}
        assert (one["results"], one["pending"], one["dead"], one["exact"]) == (10, 0, 0, True)
    assert workers_in(stage.folder) == []


def test_it_runs_on_a_server_of_its_own_and_its_commands_can_be_pasted(stage: ShopFolder) -> None:
    own = ShopFolder(stage.folder, None)
    out = own.run("demo", "text.md", "--pace", "0", timeout=180)
    assert out.returncode == 0, out.stderr
    assert out.stdout.startswith("\n# The stage\n")
    assert "10 results, 0 pending, 0 dead" in out.stdout
    assert "every count is exact" in out.stdout
    commands = [shlex.split(line) for line in out.stdout.splitlines() if " server cli " in line]
    answers = [own.out(*words[words.index("server") :]) for words in commands]
    assert len(answers) == 5
    assert "name\nworker" in answers[0]
    assert "done\n30" in answers[1]
    assert answers[2] == "10\n"
    assert answers[4] == "0\n"


def test_ctrl_c_ends_it_and_leaves_nothing(stage: ShopFolder) -> None:
    url = stage.environ["CALLBOARD_URL"]
    with stage.started("demo", "text.md", "--url", url, "--pace", "3") as running:
        running.shows("works as", times=6)
        running.signal(signal.SIGINT)
        assert running.ends() == 130
        assert "Traceback" not in running.text
        assert workers_in(stage.folder) == []


def test_a_missing_document_is_one_sentence(stage: ShopFolder) -> None:
    done = stage.run("demo", "none.md")
    assert done.returncode == 1
    assert "none.md does not exist" in done.stderr
    assert "Traceback" not in done.stderr
