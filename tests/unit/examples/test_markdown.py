"""The prose in a markdown document."""

import pytest
from hypothesis import given, strategies as st

from examples.digest.markdown import passages, plain, title_of
from examples.digest.messages import Document

README = """\
---
layout: page
---
# Parcel

[![CI](https://ci.example/x.svg)](https://ci.example) ![logo](logo.png)

Parcel **follows** your [deliveries](https://x.example/a_(b)). It keeps
every event in _one_ file.<br/>

<!-- hidden
text -->

- [Install](#install)
- [Usage](#usage)

## Install ##

It needs `PARCEL_DB`:

```bash
# not a heading
pip install parcel
```

    indented code

| Name | Meaning |
|---|---|
| a | b |

- **Fast**: no server
- [x] done &amp; dusted

  More about it.

### Deeper

> A quoted line.

Why not push?
-------------

Nobody offers *it*, see [docs][1] and [shortcut].

***

[1]: https://x.example
[shortcut]: https://y.example
[^1]: A note.
"""


def test_only_headings_and_prose_are_left() -> None:
    read = passages(Document(name="README.md", text=README))
    assert [(one.document, one.title, one.sentences) for one in read] == [
        ("Parcel", "", ["Parcel follows your deliveries.", "It keeps every event in one file."]),
        (
            "Parcel",
            "Install",
            ["It needs `PARCEL_DB`:", "Fast: no server", "done & dusted", "More about it.", "A quoted line."],
        ),
        ("Parcel", "Why not push?", ["Nobody offers it, see docs and shortcut."]),
    ]


def test_items_that_hang_on_an_introduction_are_marked() -> None:
    [passage] = passages(
        Document(name="a.md", text="It does not:\n\n- bark\n- bite\n\nIt sleeps.\n\n- well\n")
    )
    assert [passage.sentences[at] for at in passage.depends] == ["bark", "bite"]


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("**bold** and *it* and ~~no~~", "bold and it and no"),
        ("snake_case_name and 2*3*4", "snake_case_name and 2*3*4"),
        ("`**kwargs` and `a` b`", "`**kwargs` and `a` b"),
        ("``a ` b`` c", "a  b c"),
        ("**`x` is *y***", "`x` is y"),
        (r"\*not\* emphasis", "*not* emphasis"),
        ("a < b > c and <b>d</b>", "a < b > c and d"),
        ("![image](x.png) text[^2]", "text"),
        ("[`a`] and [b]", "`a` and [b]"),
        ("callboard:{<name>}:x &lt;i&gt; &#96;", "callboard:{<name>}:x <i>"),
    ],
)
def test_inline_markup_is_stripped(markup: str, text: str) -> None:
    assert plain(markup) == text


def test_a_title_is_the_first_heading_when_it_stands_alone() -> None:
    assert title_of(Document(name="a.md", text="# One\n\ntext\n\n## Two\n")) == "One"
    assert title_of(Document(name="a.md", text="# One\n\ntext\n\n# Two\n")) == "a.md"
    assert title_of(Document(name="a.md", text="text\n\n# Two\n")) == "a.md"


def test_a_plain_text_has_headings_too() -> None:
    text = "THE TALE\n\n    It was night.\n\nChapter 1\n\nIt was day.\n"
    read = passages(Document(name="tale.txt", text=text))
    assert [(one.title, one.sentences) for one in read] == [
        ("THE TALE", ["It was night."]),
        ("Chapter 1", ["It was day."]),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 50_000,
        "*a " * 20_000,
        "`" * 20_001,
        "![" * 30_000,
        "# " + " " * 50_000 + "x",
        "<a " * 20_000,
        "> " * 50_000,
    ],
    ids=["brackets", "stars", "backticks", "images", "spaces", "tags", "quotes"],
)
def test_hostile_text_is_read_in_no_time(text: str) -> None:
    for name in ("a.md", "a.txt"):
        passages(Document(name=name, text=text))


@given(st.text(alphabet=st.sampled_from("ab .#*_`~[]()<>!|-\n>\\&;1:"), max_size=300))
def test_any_markup_leaves_plain_lines(text: str) -> None:
    for passage in passages(Document(name="a.md", text=text)):
        assert passage.sentences
        for sentence in passage.sentences:
            assert sentence == sentence.strip()
            assert "\n" not in sentence
