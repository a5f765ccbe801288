"""The templates of `callboard init`."""

from __future__ import annotations

import ast

import pytest

from callboard.cli.templates import TEMPLATES, TemplateName


@pytest.mark.parametrize("template", sorted(TEMPLATES))
def test_a_template_is_an_app_of_the_name_and_says_how_to_run_it(template: TemplateName) -> None:
    files = TEMPLATES[template].files("my-shop")
    ast.parse(files["app.py"])
    assert 'App("my-shop")' in files["app.py"]
    assert files["README.md"].startswith("# my-shop\n")
    assert "callboard up app:app" in files["README.md"]
    assert " ".join(TEMPLATES[template].first.split()[:3]) in files["README.md"]


def test_the_assistant_has_a_test() -> None:
    assert "test_app.py" in TEMPLATES[TemplateName.ASSISTANT].files("x")
