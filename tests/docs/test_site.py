"""The site of the documentation: every page is in it, no link leads nowhere, and nothing is loaded from elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scripts import site_pages
from scripts.site_pages import DOCS, SITEMAP, anchor, build, loaded, menu


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the pages that may be broken."""
    folder = tmp_path / "docs"
    shutil.copytree(DOCS, folder)
    monkeypatch.setattr(site_pages, "DOCS", folder)
    return folder


def test_the_site_has_every_page_and_the_source_that_pages_lead_to(tmp_path: Path) -> None:
    number = build(tmp_path / "site")
    assert (tmp_path / "site" / SITEMAP).exists()
    made = {page.relative_to(tmp_path / "site").as_posix() for page in (tmp_path / "site").rglob("*.html")}
    pages = {f"{page.stem}.html" for page in DOCS.glob("*.md") if page.name != "README.md"}
    assert (
        pages | {"index.html", "source/callboard/runtime/execution.py.html", "source/CONTRIBUTING.html"}
        <= made
    )
    assert number == len(made)
    # The theme would fetch the program that draws these.
    assert not [name for name in made if 'class="mermaid"' in (tmp_path / "site" / name).read_text("utf-8")]


def test_what_is_wrong_with_a_page_fails_and_is_named(docs: Path, tmp_path: Path) -> None:
    wrong = "\n[nowhere](nowhere.md) [no such heading](teams.md#no-such-heading)\n"
    with (docs / "state.md").open("a", encoding="utf-8") as file:
        file.write(wrong)
    (docs / "unlisted.md").write_text("# A page that no menu has\n", encoding="utf-8")
    with pytest.raises(SystemExit) as failed:
        build(tmp_path / "site")
    for name in ("nowhere.md", "no-such-heading", "unlisted.md"):
        assert name in str(failed.value)


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    """The builder empties the folder that it writes to."""
    kept = tmp_path / "letters.txt"
    kept.write_text("mine", encoding="utf-8")
    with pytest.raises(SystemExit, match="something else"):
        build(tmp_path)
    assert kept.read_text(encoding="utf-8") == "mine"


def test_headings_have_the_anchors_that_they_have_in_a_repository() -> None:
    assert anchor("Effects outside Redis: `ctx.once`", "-") == "effects-outside-redis-ctxonce"


def test_the_menu_is_the_list_of_pages() -> None:
    text = "## Start\n\n| question | page |\n|---|---|\n| How? | [From A](a.md), [from B](b.md), [code](../c.md) |\n"
    assert menu(text) == [{"Documentation": "README.md"}, {"Start": [{"From A": "a.md"}, {"From B": "b.md"}]}]


def test_links_are_not_loaded_and_pictures_are() -> None:
    page = (
        '<a href="https://a.example"></a><img src="https://b.example/x.png"><script src="//c.example/y.js">'
    )
    assert loaded(page) == ["img https://b.example/x.png", "script //c.example/y.js"]
