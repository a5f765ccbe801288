"""`callboard doctor`, `repair` and `acl` on a real server."""

from __future__ import annotations

import json
import shlex

from tests.helpers.servers import ServerProcess, free_port

from .commands import ShopFolder


def redis_cli(shop: ShopFolder, server: ServerProcess, *words: str) -> str:
    code = (
        "import redis, sys\nprint(redis.Redis(unix_socket_path=sys.argv[1]).execute_command(*sys.argv[2:]))"
    )
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-c", code, str(server.path), *words], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_doctor_says_what_is_wrong_and_what_to_do(shop: ShopFolder, server: ServerProcess) -> None:
    shop.out("publish", "shop:app", "jobs", "Job", "name=one")
    done = shop.run("doctor", "shop:app")
    assert done.returncode == 2, done.stderr
    assert "error   persistence  nothing is written to disk" in done.stdout
    url = f"unix://{server.path}"
    assert f"do:  callboard server cli --url {url} CONFIG SET appendonly yes" in done.stdout
    assert "clerk: 1 messages wait and no worker runs it" in done.stdout
    assert "ok      consistency" in done.stdout
    quiet = shop.run("doctor", "shop:app", "--quiet").stdout
    assert "ok      consistency" not in quiet
    assert "error   persistence" in quiet


def test_doctor_prints_json(shop: ShopFolder) -> None:
    done = shop.run("doctor", "--namespace", "shop", "--json")
    report = json.loads(done.stdout)
    assert (report["namespace"], report["worst"], report["exit_code"]) == ("shop", "error", done.returncode)
    assert all(set(finding) == {"check", "level", "what", "why", "do"} for finding in report["findings"])


def test_no_server_is_a_finding(shop: ShopFolder) -> None:
    done = shop.run("doctor", "--url", f"redis://127.0.0.1:{free_port()}")
    assert (done.returncode, done.stderr) == (2, "")
    assert "error   connection   the server can't be used" in done.stdout
    assert "Traceback" not in done.stdout


def test_wrong_use_is_no_finding(shop: ShopFolder) -> None:
    done = shop.run("doctor", "--url", "http://127.0.0.1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "has to begin with redis://" in done.stderr


def test_repair_shows_first_and_mends_when_told(shop: ShopFolder, server: ServerProcess) -> None:
    shop.out("publish", "shop:app", "jobs", "Job", "name=one")
    redis_cli(shop, server, "XGROUP", "DESTROY", "callboard:{shop}:topic:jobs", "clerk")
    redis_cli(shop, server, "HSET", "callboard:{shop}:own:ghost:1:1", "clerk topic:jobs 1-1", "a")
    for arguments in ((), ("--dry-run",)):
        looked = shop.run("repair", "shop:app", *arguments)
        assert looked.returncode == 1
        assert looked.stdout.splitlines() == [
            "there   group clerk topic:jobs: there is no group",
            "there   worker ghost:1:1: it has no lease",
        ]
        assert "2 things can be mended: callboard repair --yes" in looked.stderr
    mended = shop.out("repair", "shop:app", "--yes")
    assert [line.split()[0] for line in mended.splitlines()] == ["mended", "mended"]
    assert shop.out("repair", "shop:app") == "the books of the namespace agree\n"


def test_repair_says_what_it_leaves(shop: ShopFolder, server: ServerProcess) -> None:
    redis_cli(shop, server, "SET", "callboard:{shop}:notes", "mine")
    done = shop.run("repair", "--namespace", "shop", "--yes", "--json")
    data = json.loads(done.stdout)
    assert (done.returncode, data["mended"]) == (1, [])
    assert [(fault["kind"], fault["status"]) for fault in data["left"]] == [("unknown", "stays")]
    assert "1 things only a person can decide" in done.stderr
    assert shop.run("repair", "--yes", "--dry-run").returncode == 2


def test_libraries_of_other_versions_are_named_and_deleted_when_told(
    shop: ShopFolder, server: ServerProcess
) -> None:
    shop.out("publish", "shop:app", "jobs", "Job", "name=one")
    for name in ("callboard_0ld", "mine"):
        text = f"#!lua name={name}\nredis.register_function('{name}_do', function() return 1 end)"
        redis_cli(shop, server, "FUNCTION", "LOAD", text)
    assert "callboard_0ld" in shop.run("doctor", "shop:app").stdout
    looked = shop.run("repair", "shop:app", "--libraries")
    assert (looked.returncode, looked.stdout) == (1, "there   callboard_0ld\n")
    assert "--libraries --yes" in looked.stderr
    assert shop.out("repair", "shop:app", "--libraries", "--yes") == "deleted callboard_0ld\n"
    assert shop.out("repair", "shop:app", "--libraries") == "the server has no functions of other versions\n"
    shop.out("publish", "shop:app", "jobs", "Job", "name=two")
    assert "mine_do" in redis_cli(shop, server, "FUNCTION", "LIST")


def test_acl_prints_what_a_server_takes(shop: ShopFolder, server: ServerProcess) -> None:
    for role in ("worker", "publisher", "operator", "deploy"):
        words = shlex.split(shop.out("acl", role, "--namespace", "shop"))
        assert words[:2] == ["ACL", "SETUSER"]
        assert "OK" in redis_cli(shop, server, *words) or "True" in redis_cli(shop, server, *words)
        redis_cli(shop, server, "ACL", "DELUSER", f"callboard-{role}")
        line = shop.out("acl", role, "--namespace", "shop", "--file")
        assert line.startswith(f"user callboard-{role} reset on >PASSWORD ")
    wrong = shop.run("acl", "admin")
    assert (wrong.returncode, "operator, publisher, worker" in wrong.stderr) == (2, True)


def test_where_workers_may_not_load_the_functions_deploy_does(
    shop: ShopFolder, server: ServerProcess
) -> None:
    shop.out("publish", "shop:app", "jobs", "Job", "name=one")  # what was declared is not in the way
    for role in ("worker", "operator", "deploy"):
        redis_cli(shop, server, *shlex.split(shop.out("acl", role, "--namespace", "shop")))
    as_role = {
        role: ["--url", f"unix://callboard-{role}:PASSWORD@{server.path}"]
        for role in ("worker", "operator", "deploy")
    }
    redis_cli(shop, server, "FUNCTION", "FLUSH")
    for command, role in (("worker", "worker"), ("up", "worker"), ("status", "operator")):
        app = ["--namespace", "shop"] if command == "status" else ["shop:app"]
        done = shop.run(command, *app, *as_role[role])
        assert done.returncode == (1 if command == "status" else 78), done.stderr
        assert "run `callboard deploy --url URL` once" in done.stderr
        assert "it needs the role" not in done.stderr
    refused = shop.run("deploy", *as_role["worker"])
    assert refused.returncode == 1
    assert "it needs the role deploy, and `callboard acl deploy` prints its rules" in refused.stderr
    assert shop.out("deploy", *as_role["deploy"]).startswith("loaded   callboard_")
    assert shop.out("deploy", *as_role["deploy"]).startswith("there    callboard_")
    assert shop.run("status", "--namespace", "shop", *as_role["operator"]).returncode == 0
    kept = shop.run("repair", "--libraries", "--yes", *as_role["operator"])
    assert kept.returncode == 0, "nothing is to be deleted"
    old = "#!lua name=callboard_0ld\nredis.register_function('callboard_0ld_do', function() return 1 end)"
    redis_cli(shop, server, "FUNCTION", "LOAD", old)
    refused = shop.run("repair", "--libraries", "--yes", *as_role["operator"])
    assert "it needs the role deploy, and `callboard acl deploy` prints its rules" in refused.stderr
    assert shop.out("repair", "--libraries", "--yes", *as_role["deploy"]) == "deleted callboard_0ld\n"


def test_a_user_with_too_few_rights_is_told_which_role_it_needs(
    shop: ShopFolder, server: ServerProcess
) -> None:
    shop.out("publish", "shop:app", "jobs", "Job", "name=one")
    redis_cli(shop, server, *shlex.split(shop.out("acl", "publisher", "--namespace", "shop")))
    url = f"unix://callboard-publisher:PASSWORD@{server.path}"
    names, options = ("status", "pause", "tail", "dead list"), ["--namespace", "shop", "--url", url]
    commands = [["status"], ["pause", "clerk"], ["tail", "jobs"], ["dead", "list"]]
    ask = ["ask", "shop:app", "clerk/a", "Ask", "--timeout", "200ms", "--url", url]
    *refused, asked = shop.run_each(*(command + options for command in commands), ask)
    for name, done in zip(names, refused, strict=True):
        assert done.returncode == 1
        assert f"may not do what `callboard {name}` does in the namespace 'shop': " in done.stderr
        assert (
            "it needs the role operator there, and `callboard acl operator --namespace shop` prints its rules"
            in (done.stderr)
        )
        assert done.stderr.count("\n") == 1
    # The same user in another namespace: that is named.
    elsewhere = shop.run("inspect", "clerk/a", "--namespace", "other", "--url", url)
    assert "in the namespace 'other': it needs the role operator there" in elsewhere.stderr
    assert (asked.returncode, asked.stderr.count("\n")) == (4, 1)  # who works it may not see
    assert "did not answer within 0.2 s" in asked.stderr
    assert "Give it longer with timeout= (--timeout)" in " ".join(asked.stderr.split())


def test_a_publisher_that_comes_before_the_workers_is_told_to_wait_for_one(
    shop: ShopFolder, server: ServerProcess
) -> None:
    redis_cli(shop, server, *shlex.split(shop.out("acl", "publisher", "--namespace", "shop")))
    url = f"unix://callboard-publisher:PASSWORD@{server.path}"
    published, asked, worked, upped = shop.run_each(
        ["publish", "shop:app", "jobs", "Job", "name=one", "--url", url],
        ["ask", "shop:app", "clerk/a", "Ask", "--url", url],
        ["worker", "shop:app", "--url", url],
        ["up", "shop:app", "--url", url],
    )
    for sent in (published, asked):
        assert (sent.returncode, sent.stderr.count("\n")) == (1, 1)
        assert "start a worker of this version first" in sent.stderr
        assert "`callboard acl worker --namespace shop` prints" in sent.stderr
        assert "it needs the role" not in sent.stderr
    for working in (worked, upped):
        assert (working.returncode, working.stderr.count("\n")) == (78, 1)
        assert "it needs the role worker there, and `callboard acl worker " in working.stderr
        assert "start a worker" not in working.stderr


def test_where_only_publishing_is_allowed_no_process_is_started(
    shop: ShopFolder, server: ServerProcess
) -> None:
    """Each would end for the same reason, and be started again."""
    shop.out("publish", "shop:app", "jobs", "Job", "name=one")
    redis_cli(shop, server, *shlex.split(shop.out("acl", "publisher", "--namespace", "shop")))
    done = shop.run("up", "shop:app", "--url", f"unix://callboard-publisher:PASSWORD@{server.path}")
    assert done.returncode == 78
    assert "it needs the role worker there, and `callboard acl worker " in done.stderr
    assert " | " not in done.stderr, "no process said anything"
    assert done.stderr.count("\n") == 2, "where it is, and why not"


def test_a_login_that_is_refused_is_not_a_server_that_is_away(
    shop: ShopFolder, server: ServerProcess
) -> None:
    redis_cli(shop, server, "ACL", "SETUSER", "nobody", "reset", "on", ">secret")
    ends = ["--namespace", "shop", "--url", f"unix://nobody:secret@{server.path}"]
    for done in shop.run_each(["worker", "shop:app", *ends], ["status", *ends], ["doctor", *ends]):
        said = done.stdout + done.stderr
        assert done.returncode == (2 if "doctor" in done.args else 3)
        assert "refuses the login (NOPERM" in said
        assert "`callboard acl ROLE` prints" in said
        assert "no Redis server can be reached" not in said


def test_a_full_server_that_lacks_the_functions_says_how_to_make_room(shop: ShopFolder) -> None:
    with ServerProcess(options=("--maxmemory", "1")) as full:
        url = ["--url", full.url]
        *started, examined = shop.run_each(
            ["worker", "shop:app", *url],
            ["up", "shop:app", *url],
            ["publish", "shop:app", "jobs", "Job", "name=one", *url],
            ["ask", "shop:app", "clerk/a", "Ask", *url],
            ["doctor", "--namespace", "shop", *url],
        )
    for done in started:
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert "it lacks the functions of this version" in done.stderr
        assert "server cli CONFIG SET maxmemory BYTES" in done.stderr
        assert "not sent" not in done.stderr
    assert "the server's memory is full, and it lacks the functions" in examined.stdout
    assert "as a user with the rules" not in examined.stdout


def test_doctor_does_not_take_a_right_that_a_function_lacks_for_damage(
    shop: ShopFolder, server: ServerProcess
) -> None:
    shop.out("publish", "shop:app", "jobs", "Job", "name=one")
    redis_cli(shop, server, *shlex.split(shop.out("acl", "publisher", "--namespace", "shop")))
    done = shop.run(
        "doctor", "--namespace", "shop", "--url", f"unix://callboard-publisher:PASSWORD@{server.path}"
    )
    refusals = {"redis": "can't run this command or subcommand", "embedded": "ACL failure in script"}
    assert refusals[server.kind] in done.stdout
    assert "as a user with the rules of `callboard acl operator --namespace shop`" in done.stdout
    assert "changed by hand" not in done.stdout


def test_an_unknown_role_is_named_with_the_nearest(shop: ShopFolder) -> None:
    done = shop.run("acl", "publishr")
    assert done.returncode == 2
    assert "there is no role 'publishr'. Did you mean 'publisher'?" in done.stderr
