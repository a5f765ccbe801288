"""The commands, each in a process of its own, on a real server."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.screen import shown_by, terminal

from .commands import Running, ShopFolder, wait_for


@pytest.fixture
def worker(shop: ShopFolder) -> Iterator[Running]:
    """A worker for all agent types."""
    with shop.started("worker", "shop:app") as running:
        running.shows("works as")
        yield running


# Asking and publishing


def test_publish_and_ask(shop: ShopFolder, worker: Running) -> None:
    assert shop.out("publish", "shop:app", "jobs", "Job", "name=one") == "published 1 Job to jobs/default\n"
    worker.shows("ends one")
    assert shop.out("ask", "shop:app", "clerk/default", "Ask") == "Answer said=hello jobs=1\n"
    reply = shop.out("ask", "shop:app", "clerk/default", "Ask", "say=bye", "--json")
    assert json.loads(reply) == {"said": "bye", "jobs": 1}


def test_what_the_encoding_of_a_terminal_lacks_fails_no_command(shop: ShopFolder) -> None:
    """The finding: the message was published, and the exit code said that it was not."""
    words = ("publish", "shop:app", "jobs", "Job", "name=one", "--key", "\u043a")
    done = subprocess.run(
        [sys.executable, "-m", "callboard", *words],
        cwd=shop.folder,
        env={**shop.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "published 1 Job to jobs/\\u043a\n"), done.stderr


def test_the_error_of_a_handler_is_one_sentence(shop: ShopFolder, worker: Running) -> None:
    done = shop.run("ask", "shop:app", "clerk/default", "Ask", "say=fail")
    assert done.returncode == 1
    assert done.stderr == "callboard: clerk/default failed: ValueError: no such word\n"


def test_no_reply_in_time_has_an_exit_code_of_its_own(shop: ShopFolder, worker: Running) -> None:
    done = shop.run("ask", "shop:app", "clerk/default", "Ask", "say=wait", "--timeout", "0.2")
    assert done.returncode == 4
    assert "did not answer within 0.2 s" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_id_is_published_once(shop: ShopFolder, worker: Running) -> None:
    for _ in range(2):
        shop.out("publish", "shop:app", "jobs", "Job", "name=once", "--id", "job-1")
    shop.out("publish", "shop:app", "jobs", "Job", "name=last")
    worker.shows("ends last")
    assert worker.text.count("ends once") == 1


def test_pause_resume_and_reset(shop: ShopFolder, worker: Running) -> None:
    assert shop.out("pause", "shop:app", "clerk", "clerk/a", "--topic", "jobs") == (
        "clerk is paused\nclerk/a is paused\ntopic jobs is paused\n"
    )
    assert shop.out("pause", "shop:app", "clerk") == "clerk was paused already\n"
    assert json.loads(shop.out("pause", "shop:app", "clerk", "--json")) == {"clerk": False}
    assert "paused: type clerk" in shop.out("status", "shop:app")
    shop.out("publish", "shop:app", "jobs", "Job", "name=kept")
    resumed = shop.out("resume", "shop:app", "clerk", "clerk/a", "clerk/b", "--topic", "jobs")
    assert resumed == "clerk goes on\nclerk/a goes on\nclerk/b was not paused\ntopic jobs goes on\n"
    worker.shows("ends kept")
    assert shop.out("reset", "shop:app", "clerk/default") == "clerk/default will be reset\n"
    assert json.loads(shop.out("reset", "shop:app", "clerk/other", "--json")) == {"clerk/other": True}
    done = shop.run("reset", "shop:app", "nobody/a")
    assert (done.returncode, "There is no agent type 'nobody'" in done.stderr) == (2, True)
    assert shop.run("reset", "shop:app", "clerk").returncode == 2
    assert shop.run("pause", "shop:app").returncode == 2


def test_a_delayed_message_comes_later(shop: ShopFolder, worker: Running) -> None:
    began = time.monotonic()
    shop.out("publish", "shop:app", "jobs", "Job", "name=later", "--delay", "2s", "--expires-in", "1m")
    worker.shows("ends later")
    assert time.monotonic() - began >= 2


def test_lines_of_a_file_and_of_stdin(shop: ShopFolder, worker: Running) -> None:
    lines = "".join(f'{{"name": "n{number}"}}\n\n' for number in range(700))
    (shop.folder / "jobs.jsonl").write_text(lines, encoding="utf-8")
    out = shop.out("publish", "shop:app", "jobs", "Job", "--file", "jobs.jsonl", "--id", "import")
    assert out == "published 700 Job to jobs/default\n"
    shop.out("publish", "shop:app", "jobs", "Job", "--file", "jobs.jsonl", "--id", "import")
    shop.out("publish", "shop:app", "jobs", "Job", "--file", "-", stdin='{"name": "from stdin"}\n')
    worker.shows("ends from stdin")
    assert worker.text.count("ends n") == 700


def test_a_wrong_line_of_a_file_is_named_and_nothing_is_published(shop: ShopFolder) -> None:
    (shop.folder / "jobs.jsonl").write_text('{"name": "a"}\n{"name": 3}\n', encoding="utf-8")
    done = shop.run("publish", "shop:app", "jobs", "Job", "--file", "jobs.jsonl")
    assert done.returncode == 2
    assert "line 2: this is no Job: the field 'name'" in done.stderr
    topics = json.loads(shop.out("topics", "shop:app", "--json"))
    assert [topic["length"] for topic in topics if topic["type"] == "jobs"] == [0]


def test_a_topic_that_nothing_hears_is_said(shop: ShopFolder) -> None:
    done = shop.run("publish", "shop:app", "job", "Job", "name=a")
    assert done.returncode == 0
    assert done.stderr.count("nothing subscribes to the topic 'job'") == 1
    assert "Did you mean 'jobs'?" in done.stderr
    done = shop.run("publish", "shop:app", "job", "Job", "name=a", "--strict")
    assert (done.returncode, done.stdout) == (5, "")
    assert "nothing was published to job: nothing subscribes" in done.stderr
    assert shop.run("publish", "shop:app", "jobs", "Job", "name=a", "--strict").returncode == 0


def test_a_wrong_line_of_stdin_says_what_was_published_before_it(shop: ShopFolder) -> None:
    done = shop.run("publish", "shop:app", "jobs", "Job", "--file", "-", stdin='{"name": "a"}\nnonsense\n')
    assert done.returncode == 2
    assert "line 2: this is no JSON" in done.stderr
    assert "1 messages before it were published" in done.stderr


# Bad use: one sentence, an exit code, no traceback


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["up", "shp:app"], 2, "there is no module 'shp'"),
        (["up", "shp:app"], 2, "Did you mean 'shop'?"),
        (["start"], 2, "`callboard up MODULE:APP` runs an app"),
        (["stop", "shop:app"], 2, "ends `callboard up`"),
        (["publish", "shop:app", "jobs", "Job", '{"name": "x"}'], 2, "--body="),
        (["up", "shop.py:app"], 2, "write the module, not the file: shop:app"),
        (["up", "shop:nothing"], 2, "the module 'shop' has no 'nothing'. Its apps: app."),
        (["up", "shop:other"], 2, "shop:other is of class int, not App; its apps: app"),
        (["up", "shop:app", "--processes", "clark=2"], 2, "Did you mean 'clerk'?"),
        (["up", "shop:app", "--processes", "clerk"], 2, "write --processes clerk=3"),
        (["up", "shop:app", "--processes", "clerk=0", "guard=0"], 2, "nothing to run"),
        (["worker", "empty:app"], 2, "the app 'empty' has nothing to run: declare agents with @app.agent"),
        (["worker", "shop:app", "--type", "clark"], 2, "Did you mean 'clerk'?"),
        (["worker", "shop:app", "--url", "unix:///no/such.sock"], 3, "no Redis server can be reached"),
        (["publish", "shop:app", "jobs", "Job", "name=x", "--url", "memory://x"], 2, "give a redis:// URL"),
        (["worker", "shop:app", "--url", "redis//localhost"], 2, "it has to begin with redis://"),
        (["status", "--url", "redis://127.0.0.1:1"], 3, "no Redis server can be reached"),
        (["publish", "shop:app", "jobs", "Jop", "name=a"], 2, "Did you mean 'Job'?"),
        (["publish", "shop:app", "jobs", "Job"], 2, "the field 'name' is missing"),
        (["publish", "shop:app", "jobs", "Job", "nam=a"], 2, "there is no field 'nam'. Did you mean 'name'?"),
        (["publish", "shop:app", "jobs", "Job", "name=a", "seconds=soon"], 2, "the field 'seconds'"),
        (["publish", "shop:app", "jobs", "Job", "name=a", "--at", "soon"], 2, "not an ISO 8601 time"),
        (["publish", "shop:app", "jobs", "Job", "--body", "{"], 2, "this is no JSON"),
        (
            ["publish", "shop:app", "jobs", "Job", "--file", "none.jsonl"],
            1,
            "No such file or directory: none.jsonl",
        ),
        (["ask", "shop:app", "clark/default", "Ask"], 2, "Did you mean 'clerk'?"),
        (["dead", "show", "shop:app", "clerk"], 2, "write TYPE/ID"),
        (["publish", "shop:app", "jobs", "Job", "name=a", "--delay", "soon"], 2, "'soon' is no duration"),
        (["ask", "shop:app", "clerk/a", "Ask", "--timeout", "0s"], 2, "has to be longer than 0"),
        (["ask", "shop:app", "clerk/a", "Ask", "say=a", "--body", "{}"], 2, "the fields or --body, not both"),
        (["statsu"], 2, "No such command 'statsu'"),
    ],
)
def test_bad_use_is_one_sentence(shop: ShopFolder, arguments: list[str], code: int, sentence: str) -> None:
    (shop.folder / "empty.py").write_text("from callboard import App\napp = App('empty')\n", encoding="utf-8")
    done = shop.run(*arguments)
    assert sentence in done.stderr
    assert done.returncode == code
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_a_module_that_fails_says_where_and_debug_shows_all(shop: ShopFolder) -> None:
    (shop.folder / "broken.py").write_text("import json\n\njson.loads('{')\n", encoding="utf-8")
    done = shop.run("up", "broken:app")
    assert done.returncode == 2
    assert "the module 'broken' can't be imported: JSONDecodeError" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" in shop.run("up", "broken:app", "--debug").stderr


# Looking


def test_status_and_topics(shop: ShopFolder, worker: Running) -> None:
    shop.out("publish", "shop:app", "jobs", "Job", "name=one")
    worker.shows("ends one")
    wait_for(lambda: _clerk(shop)["done"] == 1)
    text = shop.out("status", "shop:app")
    assert text.startswith("namespace shop\nTYPE")
    assert "clerk" in text
    topics = shop.out("topics", "--namespace", "shop")
    assert [line.split()[0] for line in topics.splitlines()] == ["TOPIC", "alarms", "jobs"]


def test_of_many_topics_some_are_shown_and_it_is_said_how_many_more_there_are(shop: ShopFolder) -> None:
    publish = [("publish", "shop:app", f"t{number}", "Job", "name=a") for number in range(53)]
    looks = [("topics", "shop:app"), ("topics", "shop:app", "--all"), ("topics", "shop:app", "--json")]
    *_, some, everything, data = shop.run_each(
        *publish, *looks, ("publish", "shop:app", "jobs", "Job", "name=a")
    )[:-1]
    assert some.stdout.splitlines()[-1] == "and 5 more topics: --all"
    assert len(some.stdout.splitlines()) == 52
    assert len(everything.stdout.splitlines()) == 56
    assert len(json.loads(data.stdout)) == 50
    assert "and 5 more topics: --all" in data.stderr
    assert "\njobs " in shop.out("topics", "shop:app")
    left = json.loads(shop.out("status", "shop:app", "--json"))["left_out"]
    assert left == {"types": 0, "workers": 0, "topics": 5, "streams": 0, "pauses": 0}
    assert json.loads(shop.out("status", "shop:app", "--json", "--all"))["left_out"]["topics"] == 0


def _clerk(shop: ShopFolder) -> dict[str, int]:
    types = json.loads(shop.out("status", "shop:app", "--json"))["types"]
    found: dict[str, int] = next(one for one in types if one["type"] == "clerk")
    return found


def test_a_namespace_that_does_not_exist_is_refused(shop: ShopFolder) -> None:
    done = shop.run("status", "--namespace", "shap")
    assert (done.returncode, done.stdout) == (2, "")
    assert "There is none yet: start an app with `callboard up`." in done.stderr
    shop.out("publish", "shop:app", "jobs", "Job", "name=one")
    for done in shop.run_each(
        ["dead", "list", "--namespace", "shap"], ["pause", "clerk", "--namespace", "shap"]
    ):
        assert done.returncode == 2
        assert "there is no namespace 'shap' on unix:///" in done.stderr
        assert done.stderr.endswith("Did you mean 'shop'?\n")


@pytest.mark.parametrize("command", [["status"], ["tail"], ["pause", "clerk"]])
def test_looking_starts_no_server_and_makes_nothing(tmp_path: Path, command: list[str]) -> None:
    shop = ShopFolder(tmp_path, None)
    done = shop.run(*command, "--namespace", "shop")
    assert done.returncode == 3
    assert "there is no embedded server in" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["shop.py"]


def test_what_does_not_exist_is_named_with_the_nearest(shop: ShopFolder) -> None:
    shop.out("publish", "shop:app", "jobs", "Job", "name=one")
    nearest, topics = "Did you mean 'clerk'?", "there is no topic 'job'. Did you mean 'jobs'?"
    expected: list[tuple[list[str], str]] = [
        (["dead", "list", "shop:app", "clark"], nearest),
        (["dead", "show", "shop:app", "clark/1-1"], nearest),
        (["dead", "replay", "shop:app", "clark", "--all"], nearest),
        (["dead", "show", "shop:app"], "say which letters: write TYPE/ID"),
        (["inspect", "shop:app", "clark/a"], nearest),
        (["pause", "shop:app", "clerk", "--topic", "job"], topics),
        (["resume", "shop:app", "clark"], nearest),
        (["resume", "shop:app", "--topic", "job"], topics),
        (["reset", "shop:app", "clark/a"], nearest),
    ]
    *ended, status = shop.run_each(*(command for command, _ in expected), ["status", "shop:app"])
    for (_, advice), done in zip(expected, ended, strict=True):
        assert (done.returncode, done.stdout) == (2, ""), done
        assert advice in done.stderr
        assert "--all" not in done.stderr
    assert status.returncode == 0
    assert "paused:" not in status.stdout


def test_inspect_and_hot_keys(shop: ShopFolder, worker: Running) -> None:
    for name in ("long", "next"):
        shop.out("publish", "shop:app", "jobs", "Job", f"name={name}", "seconds=600", "--key", "ada")
    worker.shows("begins long")

    def ada() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(shop.out("inspect", "shop:app", "clerk/ada", "--json"))
        return found

    wait_for(lambda: ada()["begun"])
    assert (ada()["waiting"], ada()["running"]["type"]) == (1, "Job")
    text = shop.out("inspect", "shop:app", "clerk/ada", "--state")
    assert "waiting 1, the oldest for" in text
    assert "state   none is stored" in text
    hot = shop.out("status", "shop:app", "--keys").splitlines()
    assert hot[1].split() == ["AGENT", "WAITING", "OLDEST", "RUNNING", "STATE"]
    assert hot[2].split()[:2] == ["clerk/ada", "1"]
    assert json.loads(shop.out("status", "shop:app", "--keys", "--json"))[0]["key"] == "ada"
    assert (_clerk(shop)["waiting"], _clerk(shop)["running"]) == (1, 1)


def test_ask_without_a_worker_says_so_at_once(shop: ShopFolder) -> None:
    with shop.started("ask", "shop:app", "clerk/default", "Ask", "--timeout", "1m") as asking:
        asking.shows("no worker runs 'clerk' now")
        assert "callboard worker shop:app --type clerk" in asking.text
        with shop.started("worker", "shop:app"):
            assert asking.ends() == 0


def test_tail_of_a_topic_that_does_not_exist_says_so_and_goes_on(shop: ShopFolder) -> None:
    with shop.started("tail", "shop:app", "jobs", "--limit", "1", "--from-start") as tail:
        tail.shows("waiting for the topic 'jobs', which does not exist yet")
        shop.out("publish", "shop:app", "jobs", "Job", "name=one")
        assert tail.ends() == 0
        assert '"name": "one"' in tail.text


def test_the_log_says_what_failed_where_and_how_to_see_more(shop: ShopFolder, worker: Running) -> None:
    shop.out("publish", "shop:app", "alarms", "Job", "name=fire", "--id", "fire-1")
    worker.shows("it is a dead letter now")
    first = next(line for line in worker.text.splitlines() if "attempt 1" in line)
    assert re.search(
        r"guard/default failed on Job fire-1 \(attempt 1\): RuntimeError: this guard always", first
    )
    assert re.search(r" at shop.py:\d+ in on_job; trying again", first)
    command = worker.text.split("it is a dead letter now: callboard ")[1].splitlines()[0]
    wait_for(lambda: shop.run(*command.split()).returncode == 0)
    assert "this guard always fails" in shop.out(*command.split())
    assert "Traceback" not in worker.text


def test_what_is_shown_fits_the_terminal(shop: ShopFolder) -> None:
    shop.out("publish", "shop:app", "alarms", "Job", "name=fire")
    for command, widths in ((["status"], (120, 80, 60, 40)), (["doctor"], (60, 40))):
        said = shop.run(*command, "--namespace", "shop").stdout.split()
        for columns in widths:
            text = shown_by(shop.command(*command, "--namespace", "shop"), columns, shop.folder, shop.environ)
            cut = set(text.split()) - set(said) - {"ms", "s", "min", "h"}
            assert not {word for word in cut if word.isalpha()}, text


def test_a_board_that_is_resized_has_one_table(shop: ShopFolder) -> None:
    with terminal(100) as made:
        process = subprocess.Popen(
            shop.command("up", "shop:app"),
            cwd=shop.folder,
            env={**shop.environ, "TERM": "xterm"},
            stdin=subprocess.DEVNULL,
            stdout=made.theirs,
            stderr=made.theirs,
        )
        try:
            made.shows(lambda text: "clerk | works as" in text and "guard | works as" in text)
            made.shows(lambda text: "DEAD EVER" in text)
            for columns in (60, 40):
                made.resize(columns)
                text = made.shows(lambda text: "DEAD EVER" not in text and text.count("TYPE") == 1)
                assert (text.count("WAITING"), text.count("clerk | works as")) == (1, 1)
            made.resize(120)
            text = made.shows(lambda text: "DEAD EVER" in text and text.count("TYPE") == 1)
            assert (text.count("WAITING"), text.count("clerk | works as")) == (1, 1)
        finally:
            process.terminate()
            made.shows(lambda _: process.poll() is not None)


def test_tail_shows_decoded_messages(shop: ShopFolder) -> None:
    shop.out("publish", "shop:app", "jobs", "Job", "name=one", "--key", "north")
    line = shop.out("tail", "shop:app", "--from-start", "--limit", "1")
    assert line.endswith('jobs/north Job {"name": "one", "seconds": 0.0, "times": 1}\n')
    data = json.loads(shop.out("tail", "shop:app", "jobs", "--from-start", "--limit", "1", "--json"))
    assert data["body"] == {"name": "one", "seconds": 0.0, "times": 1}
    assert data["key"] == "north"


def test_tail_goes_on_until_ctrl_c_and_is_quiet_then(shop: ShopFolder) -> None:
    shop.out("publish", "shop:app", "jobs", "Job", "name=first")
    with shop.started("tail", "shop:app", "--from-start") as tail:
        tail.shows("first")
        shop.out("publish", "shop:app", "jobs", "Job", "name=second")
        tail.shows("second")
        tail.signal(signal.SIGINT)
        assert tail.ends() == 130
        assert "Traceback" not in tail.text


def test_a_closed_pipe_is_quiet(shop: ShopFolder) -> None:
    (shop.folder / "jobs.jsonl").write_text('{"name": "a"}\n' * 200, encoding="utf-8")
    shop.out("publish", "shop:app", "jobs", "Job", "--file", "jobs.jsonl")
    tail = subprocess.Popen(
        shop.command("tail", "shop:app", "--from-start"),
        cwd=shop.folder,
        env=shop.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert tail.stdout is not None
    assert tail.stderr is not None
    with tail, tail.stdout, tail.stderr:
        tail.stdout.readline()
        tail.stdout.close()
        assert tail.stderr.read() == b""
        assert tail.wait(20) == 141


# Dead letters


def test_dead_letters_are_listed_shown_replayed_and_discarded(shop: ShopFolder, worker: Running) -> None:
    shop.out("publish", "shop:app", "alarms", "Job", "name=fire")
    wait_for(lambda: len(_letters(shop)) == 1)
    letter = _letters(shop)[0]
    assert letter in shop.out("dead", "list", "shop:app", "guard")
    shown = shop.out("dead", "show", "shop:app", letter)
    assert "this guard always fails" in shown
    assert '"name": "fire"' in shown
    assert shop.out("dead", "replay", "shop:app", letter) == "replayed 1 dead letters\n"
    missing = shop.run("dead", "show", "shop:app", "guard/1-1")
    assert (missing.returncode, "there is no dead letter guard/1-1" in missing.stderr) == (1, True)
    again = shop.run("dead", "replay", "shop:app", letter)
    assert again.returncode == 1
    assert f"not there: {letter}" in again.stderr
    wait_for(lambda: _letters(shop) not in ([], [letter]))
    assert shop.out("dead", "discard", "shop:app", "guard", "--all") == "discarded 1 dead letters\n"
    assert shop.out("dead", "list", "shop:app") == "no dead letters\n"


def _letters(shop: ShopFolder) -> list[str]:
    return [one["letter"] for one in json.loads(shop.out("dead", "list", "shop:app", "--json"))]


# A worker


def test_a_worker_drains_on_sigterm(shop: ShopFolder, worker: Running) -> None:
    shop.out("publish", "shop:app", "jobs", "Job", "name=long", "seconds=1")
    worker.shows("begins long")
    worker.signal(signal.SIGTERM)
    assert worker.ends() == 0
    assert "ends long" in worker.text


def test_a_second_signal_stops_a_worker_at_once(shop: ShopFolder, worker: Running) -> None:
    shop.out("publish", "shop:app", "jobs", "Job", "name=endless", "seconds=60")
    worker.shows("begins endless")
    worker.signal(signal.SIGTERM)
    worker.shows("finishes what it runs")
    worker.signal(signal.SIGINT)
    assert worker.ends(within=30) == 130


def test_a_worker_that_blocks_its_event_loop_ends_at_the_second_signal(
    shop: ShopFolder, worker: Running
) -> None:
    shop.out("publish", "shop:app", "jobs", "Job", "name=block", "seconds=60")
    wait_for(lambda: _clerk(shop)["running"] == 1)
    worker.signal(signal.SIGTERM)

    def ended() -> bool:
        # As a person does: a signal that comes while the first is being handled may wait for the main thread.
        worker.signal(signal.SIGINT)
        return worker.process.poll() is not None

    wait_for(ended, within=10)
    assert worker.ends() == 130


def test_past_the_grace_period_the_rest_is_given_back(shop: ShopFolder) -> None:
    with shop.started("worker", "shop:app", "--grace", "0.2") as first:
        first.shows("works as")
        shop.out("publish", "shop:app", "jobs", "Job", "name=slow", "seconds=60")
        first.shows("begins slow")
        first.signal(signal.SIGTERM)
        assert first.ends(within=30) == 0
    shop.environ["PACE"] = "0"
    with shop.started("worker", "shop:app") as second:
        second.shows("ends slow")
    assert _clerk(shop)["retried"] == 0


# init


def test_init_writes_an_app_that_runs(shop: ShopFolder) -> None:
    assert "cd 'my app' && callboard up" in shop.out("init", "my app")
    shop.out("init", "hello")
    folder = shop.folder / "hello"
    hello = ShopFolder(folder, shop.environ["CALLBOARD_URL"])
    with hello.started("worker", "app:app") as worker:
        worker.shows("works as")
        for line in (folder / "README.md").read_text(encoding="utf-8").splitlines():
            words = line.replace("'", "").split()
            if words[:1] == ["callboard"] and words[1] not in ("up", "server"):
                hello.out(*words[1:])
        assert "total=1 last=Grace" in hello.out("ask", "app:app", "counter/museum", "HowMany")
    refused = shop.run("init", "hello")
    assert refused.returncode == 2
    assert "would be overwritten" in refused.stderr


@pytest.mark.slow
def test_init_writes_an_assistant_that_answers_without_a_key(shop: ShopFolder) -> None:
    shop.out("init", "helper", "--template", "assistant")
    folder = shop.folder / "helper"
    helper = ShopFolder(folder, shop.environ["CALLBOARD_URL"])
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        helper.environ.pop(name, None)
    lines = (folder / "README.md").read_text(encoding="utf-8").splitlines()
    with helper.started("worker", "app:app") as worker:
        worker.shows("works as")
        asked = [shlex.split(line) for line in lines if line.startswith("    callboard ask")]
        answers = [helper.out(*words[1:]) for words in asked]
    assert "It is written down." in answers[0]
    assert "My cat is called Tom" in answers[2], "what one conversation heard is recalled in another"
    assert (folder / "notes.txt").read_text(encoding="utf-8") == "the milk is out\n"
    passed = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        check=False,
        cwd=folder,
        env=helper.environ,
        capture_output=True,
        text=True,
    )
    assert passed.returncode == 0, passed.stdout


def test_init_names_its_templates(shop: ShopFolder) -> None:
    wrong = shop.run("init", "helper", "--template", "asistant")
    assert wrong.returncode == 2
    assert "'counter', 'assistant'" in wrong.stderr


# On a terminal


def test_publish_shows_a_bar_on_a_terminal(shop: ShopFolder) -> None:
    (shop.folder / "jobs.jsonl").write_text('{"name": "a"}\n' * 10, encoding="utf-8")
    text = on_terminal(shop, "publish", "shop:app", "jobs", "Job", "--file", "jobs.jsonl")
    assert "publishing" in text
    assert "10/10" in text


def on_terminal(shop: ShopFolder, *arguments: str) -> str:
    """The output of a command whose stderr is a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        shop.command(*arguments),
        cwd=shop.folder,
        env={**shop.environ, "TERM": "xterm", "COLUMNS": "100"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    written = b""
    # Our hold on its other side stays until the end: that it was closed is said by an error, by nothing, or not at all.
    while process.poll() is None or select.select([ours], [], [], 0)[0]:
        if select.select([ours], [], [], 0.05)[0]:
            written += os.read(ours, 65_536)
    os.close(ours)
    os.close(theirs)
    assert process.returncode == 0
    return written.decode()


def test_wrong_use_is_shown_without_marks_that_turn_text_around(shop: ShopFolder) -> None:
    done = shop.run("status", "--n\u202eame")
    assert done.returncode == 2
    assert "\u202e" not in done.stderr
    assert "\\u202e" in done.stderr
