"""The files of docs/production.md are whole: they can be copied as they are."""

from __future__ import annotations

import configparser
import dataclasses
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from callboard.broker import BrokerSettings
from callboard.cli.worker_line import read_worker_line

from .blocks import Block, blocks_of

PAGE = Path(__file__).parents[2] / "docs" / "production.md"


def block(language: str) -> Block:
    """The only block in this language."""
    (found,) = [one for one in blocks_of(PAGE) if one.language == language]
    return found


def test_every_variable_is_a_setting() -> None:
    settings = {f"CALLBOARD_{one.name.upper()}" for one in dataclasses.fields(BrokerSettings)}
    named = set(re.findall(r"CALLBOARD_[A-Z_]+", PAGE.read_text("utf-8")))
    assert named <= settings, named - settings


def test_the_deployment_fits_kubernetes() -> None:
    made: dict[str, Any] = yaml.safe_load(block("yaml").text)
    assert (made["apiVersion"], made["kind"]) == ("apps/v1", "Deployment")
    spec = made["spec"]
    pod = spec["template"]["spec"]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    assert pod["terminationGracePeriodSeconds"] > BrokerSettings().drain_grace
    (container,) = pod["containers"]
    _callboard, *words = container["command"]
    assert read_worker_line(words) is not None
    file = next(one["value"] for one in container["env"] if one["name"] == "CALLBOARD_HEALTH_FILE")
    for probe in ("startupProbe", "readinessProbe"):
        assert container[probe]["exec"]["command"] == ["callboard", "health", file]


def test_the_unit_is_one(tmp_path: Path) -> None:
    text = block("ini").text
    unit = configparser.ConfigParser(delimiters="=", interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(text)
    service = unit["Service"]
    assert int(service["TimeoutStopSec"]) > BrokerSettings().drain_grace
    assert service["RestartPreventExitStatus"] == "78"
    if shutil.which("systemd-analyze"):
        path = tmp_path / "shop.service"
        path.write_text(text.replace("/srv/shop/.venv/bin/callboard", "/bin/true"), "utf-8")
        done = subprocess.run(
            ["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False
        )
        assert "Unknown" not in done.stderr


def test_the_image_runs_a_worker() -> None:
    lines = [line for line in block("dockerfile").text.splitlines() if line and not line.startswith("#")]
    known = {"FROM", "WORKDIR", "RUN", "COPY", "ENV", "USER", "CMD"}
    assert {line.split()[0] for line in lines} <= known
    words = re.findall(r'"([^"]+)"', lines[-1])
    assert read_worker_line(words[1:]) is not None


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#]+)", PAGE.read_text("utf-8")))
def test_its_links_lead_somewhere(link: str) -> None:
    assert (PAGE.parent / link).exists()
