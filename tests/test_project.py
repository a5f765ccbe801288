"""The files around the code: what they name exists, and what exists is named."""

from __future__ import annotations

import ast
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from callboard.broker import BrokerSettings
from examples.digest import app
from examples.digest.messages import Requirements

ROOT = Path(__file__).parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
STORES = ("redis", "chroma")
AGENT_SERVICES = {name: service for name, service in COMPOSE["services"].items() if name not in STORES}
PASSWORD = "${REDIS_PASSWORD:?put REDIS_PASSWORD=... into .env, see the top of compose.yaml}"
LINKS = {"actors": "callboard", "broker": "callboard/broker", "memory": "callboard/memory"}
INSTALLED: dict[str, str] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["sources"]


def test_the_package_is_installed_as_it_is() -> None:
    assert INSTALLED == {
        "examples/assistant": "callboard/cli/demo-files/assistant",
        "examples/digest": "callboard/cli/demo-files/digest",
    }
    for folder in LINKS.values():
        assert (ROOT / folder).resolve() == ROOT / folder
        assert (ROOT / folder / "__init__.py").is_file()
        assert (ROOT / folder / "py.typed").is_file()


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only a checkout has the links, an sdist has none")
@pytest.mark.parametrize(("link", "folder"), LINKS.items())
def test_a_link_leads_to_its_folder_and_nothing_needs_it(link: str, folder: str) -> None:
    path = ROOT / link
    # Where git makes no links, it makes a file that says where one would lead.
    leads_to = str(path.readlink()) if path.is_symlink() else path.read_text()
    assert leads_to == folder
    built = PROJECT["tool"]["hatch"]["build"]["targets"]
    assert {link} & {*built["wheel"]["only-include"], *built["sdist"]["only-include"]} == set()


def test_every_folder_with_modules_is_a_package() -> None:
    """A folder without __init__.py would be importable from a checkout and missing in strict tools."""
    folders = {path.parent for path in (ROOT / "callboard").rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


WITHOUT_SUBJECT = re.compile(r"(It|Its|They|Their|Them|Each|Both|That|These|Those|This one|With them)\b")


def test_no_paragraph_on_top_of_a_module_begins_with_a_pronoun() -> None:
    """Who opens a file reads each paragraph alone; when files are joined, a pronoun comes to stand for something else."""
    found = [
        f"{path.relative_to(ROOT)}: {paragraph[:60]}"
        for path in sorted((ROOT / "callboard").rglob("*.py"))
        for paragraph in (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[1:]
        if WITHOUT_SUBJECT.match(paragraph)
    ]
    assert found == []


def test_the_command_is_there() -> None:
    assert PROJECT["project"]["scripts"] == {"callboard": "callboard.cli:main"}
    from callboard.cli import main

    assert callable(main)


def _requirements() -> list[str]:
    """Of the package and of every extra, those apart that are other extras."""
    extras = PROJECT["project"]["optional-dependencies"]
    every = [*PROJECT["project"]["dependencies"], *(text for extra in extras.values() for text in extra)]
    return [text for text in every if not text.startswith("callboard[")]


def test_the_metadata_has_lower_bounds_only() -> None:
    # What the interop runtime needs of AutoGen is no public interface, so the extra names the version that is tested.
    pinned = PROJECT["project"]["optional-dependencies"]["autogen"]
    for requirement in [text for text in _requirements() if text not in pinned]:
        version = requirement.partition(";")[0]
        assert ">=" in version, requirement
        assert not re.search(r"==|<|~=", version), requirement


def test_the_constraints_name_versions_and_no_addresses() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line)] == []


def test_the_constraints_cover_every_requirement() -> None:
    def name(text: str) -> str:
        return re.split(r"[\[>=;]", text)[0].strip().lower().replace("_", "-")

    pinned = {name(line) for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert {name(text) for text in _requirements()} <= pinned


@pytest.mark.parametrize(
    "script",
    [
        "scripts/demo",
        "scripts/test",
        "scripts/check",
        "scripts/chaos",
        "scripts/proof",
        "scripts/interop",
        "scripts/site",
        ".ci/run",
    ],
)
def test_scripts_can_be_run(script: str) -> None:
    path = ROOT / script
    assert path.stat().st_mode & stat.S_IXUSR
    assert os.access(path, os.X_OK)
    first, *_ = path.read_text().splitlines()
    assert first == "#!/usr/bin/env bash"
    assert "set -euo pipefail" in path.read_text()


def test_compose_has_one_service_per_agent_type_of_the_app() -> None:
    assert set(AGENT_SERVICES) == {declaration.type for declaration in app}


@pytest.mark.parametrize(("agent_type", "service"), AGENT_SERVICES.items())
def test_a_compose_service_runs_its_agent_type_and_can_be_scaled(
    agent_type: str, service: dict[str, Any]
) -> None:
    assert service["command"] == ["callboard", "worker", "examples.digest:app", "--type", agent_type]
    assert service["environment"] == {
        "CALLBOARD_URL": f"redis://:{PASSWORD}@redis:6379",
        "CALLBOARD_HEALTH_FILE": "/tmp/health",
        "CALLBOARD_MAX_MEMORY": "400MB",
    }
    assert service["depends_on"] == {"redis": {"condition": "service_healthy"}}
    assert "container_name" not in service
    assert "ports" not in service


def test_compose_commands_are_ones_that_the_command_line_accepts() -> None:
    from typer.main import get_command

    from callboard.cli.command_line import command_line

    group: Any = get_command(command_line())
    for service in AGENT_SERVICES.values():
        _, command, *arguments = service["command"]
        with group.commands[command].make_context(command, list(arguments)) as context:
            assert context.params["types"] == [arguments[-1]]


def test_compose_has_a_password_and_none_in_the_file() -> None:
    redis = COMPOSE["services"]["redis"]
    assert redis["command"][redis["command"].index("--requirepass") + 1] == PASSWORD
    assert redis["environment"] == {"REDISCLI_AUTH": PASSWORD}
    without = (ROOT / "compose.yaml").read_text().replace(PASSWORD, "")
    assert "requirepass" in without
    assert ".env" in (ROOT / ".gitignore").read_text().splitlines()


def test_compose_has_limits_and_a_worker_drains_below_its_own() -> None:
    for name, service in COMPOSE["services"].items():
        if name != "chroma":
            assert service["mem_limit"] == "512m"
            assert service["cpus"] == 1.0
    for service in AGENT_SERVICES.values():
        limits = BrokerSettings.from_env(service["environment"])
        assert limits.max_memory < 512 * 1024 * 1024


def test_compose_looks_after_the_health_of_workers() -> None:
    for service in AGENT_SERVICES.values():
        check = service["healthcheck"]
        assert check["test"] == ["CMD", "callboard", "health"]
        assert BrokerSettings.from_env(service["environment"]).health_file == "/tmp/health"
        assert all(re.fullmatch(r"\d+s", check[name]) for name in ("interval", "timeout", "start_period"))


def test_the_first_message_of_compose_is_one_that_the_app_takes() -> None:
    text = (ROOT / "compose.yaml").read_text()
    job = re.search(r"is a line of JSON: (\{.*\})$", text, re.MULTILINE)
    assert job is not None
    Requirements.model_validate_json(job[1])
    splitter = next(one for one in app if one.type == "splitter")
    assert "callboard publish examples.digest:app requirements Requirements" in text
    assert "requirements" in str(splitter.subscriptions)


SERVICE_KEYS = {
    *("build", "image", "init", "restart", "stop_grace_period", "environment", "healthcheck", "depends_on"),
    *("mem_limit", "cpus", "pids_limit", "command", "ports", "volumes", "profiles"),
}
HEALTH_KEYS = {"test", "interval", "timeout", "retries", "start_period"}


def test_compose_has_no_words_that_compose_does_not_know() -> None:
    """Nothing here can run it, and a misspelled word would only be seen by who does."""
    assert set(COMPOSE) == {"x-agents", "services", "volumes"}
    for service in COMPOSE["services"].values():
        assert set(service) <= SERVICE_KEYS
        assert set(service.get("healthcheck", {})) <= HEALTH_KEYS
        assert all(isinstance(word, str) for word in service.get("command", []))
        assert {volume.partition(":")[0] for volume in service.get("volumes", [])} <= set(COMPOSE["volumes"])
        assert set(service.get("depends_on", {})) <= set(COMPOSE["services"])


def test_compose_waits_longer_than_a_drain() -> None:
    for service in AGENT_SERVICES.values():
        assert int(service["stop_grace_period"].removesuffix("s")) > BrokerSettings().drain_grace


def test_compose_keeps_its_data_and_is_reachable_from_this_machine_only() -> None:
    redis = COMPOSE["services"]["redis"]
    assert redis["command"][:3] == ["redis-server", "--appendonly", "yes"]
    assert redis["volumes"] == ["redis-data:/data"]
    assert "redis-data" in COMPOSE["volumes"]
    assert "redis-cli ping" in redis["healthcheck"]["test"][1]
    assert all(port.startswith("127.0.0.1:") for port in redis["ports"])


def test_compose_has_a_chroma_server_for_who_asks_for_it() -> None:
    """Its version is the client's, its data stay, and only this machine reaches it."""
    chroma = COMPOSE["services"]["chroma"]
    pinned = re.search(r"^chromadb==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pinned is not None
    assert chroma["image"] == f"chromadb/chroma:{pinned[1]}"
    assert chroma["profiles"] == ["memory"]
    assert chroma["volumes"] == ["chroma-data:/data"]
    assert "chroma-data" in COMPOSE["volumes"]
    assert all(port.startswith("127.0.0.1:") for port in chroma["ports"])


def test_the_image_holds_what_its_build_needs() -> None:
    """What the Dockerfile copies exists and is not left out of the build's context."""
    copied: set[str] = set()
    for line in (ROOT / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY "):
            copied.update(line.split()[1:-1])
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied == kept
    assert all((ROOT / name).exists() for name in copied)
