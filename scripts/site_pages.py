"""The documentation as a site: `python -m scripts.site_pages [FOLDER]`.

The pages of docs/ are copied, and what they link to outside of that folder becomes a page as well: a file of the source with
its text, a folder with the names in it. So the site stands by itself, also where nobody can reach a repository. Its menu is
made of docs/README.md, the one list of the pages; a page that is not in it fails the build. MkDocs and its theme Material do
the rest, without fonts or scripts of other hosts.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import yaml

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
INDEX: Final = "README.md"
SITEMAP: Final = "sitemap.xml"  # every site has one
LINK: Final = re.compile(r"(?<=\]\()(\.\./[^)#\s]+)(#[^)\s]*)?(?=\))")
ROW: Final = re.compile(r"^\| [^|]+ \| (.+) \|$")
IN_ROW: Final = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
LANGUAGES: Final = {".py": "python", ".lua": "lua", ".yaml": "yaml", ".toml": "toml", ".json": "json"}

SETTINGS: Final[Mapping[str, Any]] = {
    "site_name": "Callboard",
    "site_description": "Durable actors and multi-agent teams on Redis Streams",
    "strict": True,
    # Pages find each other in a folder that no web server shows, too.
    "use_directory_urls": False,
    "theme": {
        "name": "material",
        "font": False,
        "features": ["navigation.sections", "navigation.top", "content.code.copy", "toc.follow"],
        "palette": [
            {
                "media": "(prefers-color-scheme: light)",
                "scheme": "default",
                "toggle": {"icon": "material/weather-night", "name": "Dark"},
            },
            {
                "media": "(prefers-color-scheme: dark)",
                "scheme": "slate",
                "toggle": {"icon": "material/weather-sunny", "name": "Light"},
            },
        ],
    },
    "extra": {"generator": False},
    "plugins": ["search"],
    "markdown_extensions": [
        "tables",
        "fenced_code",
        "sane_lists",
        # Headings get the anchors that they have in a repository, so that links work in both places.
        {"toc": {"permalink": True, "slugify": "scripts.site_pages.anchor"}},
        {"pymdownx.highlight": {"use_pygments": True}},
        "pymdownx.superfences",
    ],
    "validation": {
        "omitted_files": "warn",
        "absolute_links": "warn",
        "unrecognized_links": "warn",
        "anchors": "warn",
    },
}


def build(target: Path) -> int:
    """Build the site.

    Args:
        target: The folder that it is written to; an earlier site in it goes.

    Returns:
        How many pages it has.

    Raises:
        SystemExit: A page or a link is wrong; the text says which. Or something else than a site is in the folder.
    """
    if target.is_dir() and any(target.iterdir()) and not (target / SITEMAP).exists():
        raise SystemExit(
            f"{target} has something else in it, which would go: name a folder that is empty, or new"
        )
    with tempfile.TemporaryDirectory() as folder:
        pages = Path(folder, "docs")
        pages.mkdir()
        copied = _copy(pages)
        settings = {
            **SETTINGS,
            "docs_dir": str(pages),
            "site_dir": str(target.resolve()),
            "nav": menu((DOCS / INDEX).read_text("utf-8")),
            "not_in_nav": "\n".join(f"/{name}" for name in copied),
        }
        file = Path(folder, "mkdocs.yml")
        # The one value that is no plain data: a function, as YAML of MkDocs names one.
        text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
        file.write_text(text.replace("slugify: scripts.", "slugify: !!python/name:scripts."), "utf-8")
        # Not `--quiet`: what it does not say, `strict` does not count.
        done = subprocess.run(
            [sys.executable, "-m", "mkdocs", "build", "--config-file", str(file)],
            cwd=ROOT,
            env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"the site was not built:\n{done.stderr}")
    found = sorted(target.rglob("*.html"))
    if elsewhere := [
        f"{page.relative_to(target)}: {url}" for page in found for url in loaded(page.read_text("utf-8"))
    ]:
        raise SystemExit("loaded from elsewhere:\n" + "\n".join(elsewhere))
    return len(found)


def anchor(heading: str, separator: str) -> str:
    """The anchor of a heading, as repositories make it: small letters, blanks as dashes, no other signs."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


# Pages


def _copy(pages: Path) -> list[str]:
    """Copy docs/ and what it leads to; the names of the pages that are in no menu."""
    for source in DOCS.rglob("*"):
        if source.is_file():
            place = pages / source.relative_to(DOCS)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, place)
    wanted = {
        Path(posixpath.normpath(f"docs/{found[1]}"))
        for source in DOCS.glob("*.md")
        for found in LINK.finditer(source.read_text("utf-8"))
    }
    for page in pages.glob("*.md"):
        page.write_text(LINK.sub(_inside, page.read_text("utf-8")), "utf-8")
    made: list[str] = []
    for path in sorted(wanted):
        name = _page_of(path.as_posix())
        place = pages / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(_source_page(path), "utf-8")
        made.append(name)
    return made


def _inside(link: re.Match[str]) -> str:
    return _page_of(posixpath.normpath(f"docs/{link[1]}")) + (link[2] or "")


def _page_of(path: str) -> str:
    """The page of a file or a folder of the source."""
    return f"source/{path.removesuffix('.md')}.md"


def _source_page(path: Path) -> str:
    file = ROOT / path
    title = f"---\nsearch:\n  exclude: true\n---\n\n# {path.as_posix()}\n\n"
    if file.is_dir():
        return (
            title + "\n".join(f"- `{each.name}`" for each in sorted(file.iterdir()) if each.is_file()) + "\n"
        )
    text = file.read_text("utf-8")
    if file.suffix == ".md":
        # A page of its own, whose links lead to what the site may not have: their words stay.
        return re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]+\)", r"\1", text)
    return f"{title}````{LANGUAGES.get(file.suffix, 'text')}\n{text}````\n"


def menu(index: str) -> list[dict[str, Any]]:
    """The menu, made of the tables of docs/README.md: a section for each heading, an entry for each link."""
    sections: list[dict[str, Any]] = [{"Documentation": INDEX}]
    for line in index.splitlines():
        if line.startswith("## "):
            sections.append({line.removeprefix("## "): []})
        elif found := ROW.match(line):
            sections[-1][next(iter(sections[-1]))] += list(_entries(found[1]))
    return sections


def _entries(cell: str) -> Iterator[dict[str, str]]:
    for title, target in IN_ROW.findall(cell):
        if not target.startswith("../"):
            yield {(title[0].upper() + title[1:]).replace("`", ""): target}


# What a page loads


class _Loads(HTMLParser):
    """Collects what a browser loads for a page, from other hosts. Links are followed by people only."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        if tag == "a":
            return
        for name, value in attrs:
            if name in ("src", "href", "srcset", "action", "poster") and urlsplit(value or "").netloc:
                self.found.append(f"{tag} {value}")


def loaded(page: str) -> list[str]:
    """What a page loads from other hosts."""
    parser = _Loads()
    parser.feed(page)
    return parser.found


if __name__ == "__main__":
    place = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site")
    number = build(place)
    print(f"{number} pages in {place}; python -m http.server --bind 127.0.0.1 -d {place} shows them")
