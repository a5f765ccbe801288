"""The commands, each in a process of its own, on a real server."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator

import pytest

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
    assert "paused: type clerk" in shop.out("status", "shop:app")
    shop.out("publish", "shop:app", "jobs", "Job", "name=kept")
    resumed = shop.out("resume", "shop:app", "clerk", "clerk/a", "clerk/b", "--topic", "jobs")
    assert resumed == "clerk goes on\nclerk/a goes on\nclerk/b was not paused\ntopic jobs goes on\n"
    worker.shows("ends kept")
    assert shop.out("reset", "shop:app", "clerk/default") == "clerk/default will be reset\n"
    done = shop.run("reset", "shop:app", "nobody/a")
    assert (done.returncode, "not declared" in done.stderr) == (1, True)
    assert shop.run("reset", "shop:app", "clerk").returncode == 2
    assert shop.run("pause", "shop:app").returncode == 2


def test_a_delayed_message_comes_later(shop: ShopFolder, worker: Running) -> None:
    shop.out("publish", "shop:app", "jobs", "Job", "name=later", "--delay", "5", "--expires-in", "60")
    shop.out("publish", "shop:app", "jobs", "Job", "name=sooner")
    worker.shows("ends later")
    assert worker.text.index("ends sooner") < worker.text.index("begins later")


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
        (["up", "shop.py:app"], 2, "write the module, not the file: shop:app"),
        (["up", "shop:nothing"], 2, "the module 'shop' has no 'nothing'. Its apps: app."),
        (["up", "shop:other"], 2, "shop:other is of class int, not App; its apps: app"),
        (["up", "shop:app", "--processes", "clark=2"], 2, "Did you mean 'clerk'?"),
        (["up", "shop:app", "--processes", "clerk"], 2, "write --processes clerk=3"),
        (["up", "shop:app", "--processes", "clerk=0", "guard=0"], 2, "nothing to run"),
        (["worker", "shop:app", "--type", "clark"], 2, "Did you mean 'clerk'?"),
        (["worker", "shop:app", "--url", "unix:///no/such.sock"], 3, "no Redis server can be reached"),
        (["worker", "shop:app", "--url", "redis//localhost"], 2, "it has to begin with redis://"),
        (["status", "--url", "redis://127.0.0.1:1"], 3, "no Redis server can be reached"),
        (["publish", "shop:app", "jobs", "Jop", "name=a"], 2, "Did you mean 'Job'?"),
        (["publish", "shop:app", "jobs", "Job"], 2, "the field 'name' is missing"),
        (["publish", "shop:app", "jobs", "Job", "nam=a"], 2, "there is no field 'nam'. Did you mean 'name'?"),
        (["publish", "shop:app", "jobs", "Job", "name=a", "seconds=soon"], 2, "the field 'seconds'"),
        (["publish", "shop:app", "jobs", "Job", "name=a", "--at", "soon"], 2, "not an ISO 8601 time"),
        (["publish", "shop:app", "jobs", "Job", "--json", "{"], 2, "this is no JSON"),
        (
            ["publish", "shop:app", "jobs", "Job", "--file", "none.jsonl"],
            1,
            "No such file or directory: none.jsonl",
        ),
        (["ask", "shop:app", "clark/default", "Ask"], 2, "Did you mean 'clerk'?"),
        (["dead", "show", "shop:app", "clerk"], 2, "write TYPE/ID"),
        (["dead", "show", "shop:app", "clerk/1-1"], 1, "there is no dead letter clerk/1-1"),
        (["statsu"], 2, "No such command 'statsu'"),
    ],
)
def test_bad_use_is_one_sentence(shop: ShopFolder, arguments: list[str], code: int, sentence: str) -> None:
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


def _clerk(shop: ShopFolder) -> dict[str, int]:
    types = json.loads(shop.out("status", "shop:app", "--json"))["types"]
    found: dict[str, int] = next(one for one in types if one["type"] == "clerk")
    return found


def test_status_of_an_empty_namespace(shop: ShopFolder) -> None:
    assert "Nothing is declared" in shop.out("status", "--namespace", "nobody")


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
        shop.out("publish", "shop:app", "jobs", "Job", "name=slow", "seconds=2")
        first.shows("begins slow")
        first.signal(signal.SIGTERM)
        assert first.ends(within=30) == 0
    with shop.started("worker", "shop:app") as second:
        second.shows("ends slow")
    assert _clerk(shop)["retried"] == 0


# init


def test_init_writes_an_app_that_runs(shop: ShopFolder) -> None:
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
    os.close(theirs)
    written = b"".join(_chunks(ours))
    os.close(ours)
    assert process.wait(20) == 0
    return written.decode()


def _chunks(descriptor: int) -> Iterator[bytes]:
    # Reading a terminal whose other side is closed is an error on Linux and an empty read elsewhere.
    try:
        while chunk := os.read(descriptor, 65_536):
            yield chunk
    except OSError:
        return
