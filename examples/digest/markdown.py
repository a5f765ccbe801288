"""A document as sections of plain sentences: headings and prose stay, everything else goes.

Left out: front matter, code blocks, tables, images, link targets, comments, tags, rules, footnotes. Inline
code keeps its backticks, because names such as `__init__` would not survive without them.
"""

import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .messages import Document
from .text import is_finished, is_introduction, sentences

# Repetitions are bounded where a hostile text could make a search quadratic.
_FENCE = re.compile(r"[ \t]*(`{3,}(?=[^`]*$)|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
_RULE = re.compile(r" {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|={3,}[ \t]*)$")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$")
_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?")
_QUOTE = re.compile(r"^ {0,3}(?:>[ \t]?)+(?:\[![A-Za-z]+\]$)?")
_TABLE_RULE = re.compile(
    r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)+\|?[ \t]*$|[ \t]*\|[ \t]*:?-+:?[ \t]*\|[ \t]*$"
)
_DEFINITION = re.compile(r" {0,3}\[([^\]]+)\]:[ \t]*\S")
_ONLY_LINK = re.compile(r"\s*\[[^\[\]]*\]\([^()]*\)[.\s]*$")
_PLAIN_HEADING = re.compile(
    r"(?:chapter|part|section|book|act|appendix|\d+(?:\.\d+)*\.?)\s+\S", re.IGNORECASE
)
_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\n.*?\n(?:\1|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u200b-\u200f\ue000\ue001\ufeff]")

_CODE = re.compile(r"(?<!`)(`{1,9})(?!`)(.{1,500}?)(?<!`)\1(?!`)")
_SET_ASIDE = re.compile("\ue000(\\d+)\ue001")
_IMAGE = re.compile(r"!\[[^\]]{0,500}\](?:\([^()]*(?:\([^()]*\)[^()]*)*\)|\[[^\]]*\])?")
_LINK = re.compile(r"\[([^\[\]]*)\](?:\([^()]*(?:\([^()]*\)[^()]*)*\)|\[[^\]]*\])")
_SHORTCUT = re.compile(r"\[([^\[\]]{1,200})\](?!\()")
_FOOTNOTE = re.compile(r"\[\^[^\]]+\]")
_AUTOLINK = re.compile(r"<(?:https?|ftp|mailto):[^>\s]*>")
# Only what HTML knows: `<name>` in prose is a placeholder.
_TAG = re.compile(
    r"</?(?:a|abbr|article|aside|b|big|blockquote|br|center|cite|code|dd|del|details|div|dl|dt|em|figcaption|figure"
    r"|font|footer|h[1-6]|header|hr|i|iframe|img|input|ins|kbd|li|main|mark|nav|ol|p|picture|pre|q|s|samp|script"
    r"|section|small|source|span|strike|strong|style|sub|summary|sup|svg|table|tbody|td|tfoot|th|thead|tr|tt|u|ul"
    r"|var|video)(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)
_STARS = re.compile(r"(?<![\\\w*])(\*{1,3})(?=[^\s*])(.{1,500}?)(?<=[^\s\\])\1(?![\w*])")
_BARS = re.compile(r"(?<![\\\w_])(_{1,3})(?=[^\s_])(.{1,500}?)(?<=[^\s\\])\1(?![\w_])")
_STRUCK = re.compile(r"~~(?=\S)(.{1,500}?)(?<=\S)~~")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_ENTITY = re.compile(r"&#?[A-Za-z0-9]{1,32};")
_EMPTY = re.compile(r"\(\s*\)|\[\s*\]")
_SPACE = re.compile(r"\s+")


@dataclass(slots=True)
class Passage:
    """The sentences under one heading of one document.

    Attributes:
        document: Title of the document: its first heading when that stands alone at its level, else its name.
        title: The heading; empty under the document's own title.
        sentences: In order.
        leads: Which sentences open a paragraph, from 0.
        depends: Which sentences belong to a list that the sentence before it introduces with a colon.
    """

    document: str
    title: str
    sentences: list[str] = field(default_factory=list)
    leads: list[int] = field(default_factory=list)
    depends: list[int] = field(default_factory=list)
    _introduced: bool = False

    def add(self, paragraph: str, *, is_item: bool) -> None:
        """Append the sentences of a paragraph or list item."""
        found = sentences(paragraph)
        first = len(self.sentences)
        self.leads.append(first)
        self.sentences.extend(found)
        if is_item and self._introduced:
            self.depends.extend(range(first, len(self.sentences)))
        elif not is_item:
            self._introduced = is_introduction(paragraph)


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph (level 0) or a heading (level 1 to 6), without inline markup."""

    level: int
    text: str
    is_item: bool = False


def passages(document: Document) -> list[Passage]:
    """Read a document.

    Headings below the document's second level are merged into the section that they belong to.

    Args:
        document: Markdown, or plain text when the name ends with `.txt`.

    Returns:
        The passages that hold at least one sentence, in order.
    """
    found = list(blocks(document))
    top, depth = _levels(found)
    title = found[0].text if top else document.name
    current = Passage(title, "")
    read = [current]
    for block in found[1:] if top else found:
        if not block.level:
            current.add(block.text, is_item=block.is_item)
        elif block.level <= depth:
            current = Passage(title, block.text)
            read.append(current)
    return [passage for passage in read if passage.sentences]


def title_of(document: Document) -> str:
    """The document's own heading, or its name when it has none."""
    found = list(blocks(document))
    return found[0].text if _levels(found)[0] else document.name


def plain(text: str, labels: frozenset[str] = frozenset()) -> str:
    """Strip inline markup from a line or paragraph; white space becomes single spaces.

    Args:
        text: Markdown without block structure.
        labels: Labels of link definitions, in lower case: `[label]` is a link then, and brackets otherwise.
    """
    aside: list[str] = []

    def set_aside(span: re.Match[str]) -> str:
        aside.append(_span(span.group(2)))
        return f"\ue000{len(aside) - 1}\ue001"

    text = _CODE.sub(set_aside, _SPACE.sub(" ", text))

    def shortcut(link: re.Match[str]) -> str:
        label = _SET_ASIDE.sub(lambda mark: aside[int(mark.group(1))], link.group(1))
        return (
            link.group(1) if label.lower() in labels or _SET_ASIDE.fullmatch(link.group(1)) else link.group()
        )

    # A backtick without a partner is debris.
    text = _TAG.sub("", _SHORTCUT.sub(shortcut, _without_links(text.replace("`", ""))))
    text = _ENTITY.sub(_unescaped, _ESCAPE.sub(r"\1", _without_emphasis(text)))
    text = _SPACE.sub(" ", _EMPTY.sub("", text))
    return _SET_ASIDE.sub(lambda mark: aside[int(mark.group(1))], text).strip()


def blocks(document: Document) -> Iterator[Block]:
    """Give the headings and paragraphs of a document in order; what holds no letter or digit is left out."""
    for block in _Reader(document).read():
        if any(map(str.isalnum, block.text)):
            yield block


def _levels(found: list[Block]) -> tuple[int, int]:
    """The level of the document's title (0 if it has none) and the level of its sections."""
    levels = [block.level for block in found if block.level]
    if not levels:
        return 0, 1
    top = found[0].level
    if not top or levels.count(top) > 1 or min(levels) < top:
        return 0, min(levels)
    return top, min((level for level in levels if level > top), default=top + 1)


class _Reader:
    """Goes through the lines once; each kind of line is one step."""

    def __init__(self, document: Document) -> None:
        text = (
            document.text.replace("\r\n", "\n")
            .replace("\r", "\n")
            .replace("\u2028", "\n")
            .replace("\u2029", "\n\n")
        )
        text = _FRONT_MATTER.sub("", text.removeprefix("\ufeff"), count=1)
        text = _CONTROL.sub("", _COMMENT.sub("", text))
        self._lines = [_QUOTE.sub("", line.rstrip(), count=1) for line in text.split("\n")]
        self._labels = frozenset(
            found[1].lower() for line in self._lines if (found := _DEFINITION.match(line))
        )
        self._is_plain = document.name.lower().endswith(".txt")
        self._at = 0
        self._paragraph: list[str] = []
        self._in_list = False

    def read(self) -> Iterator[Block]:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if self._skipped(line):
                yield from self._flush()
                continue
            self._at += 1
            yield from self._line(line)
        yield from self._flush()

    def _skipped(self, line: str) -> bool:
        """Step over a code block or a table that begins here."""
        if fence := _FENCE.match(line):
            self._skip_fence(fence.group(1))
        elif self._is_table():
            self._skip_while(lambda text: "|" in text)
        elif self._is_indented_code(line):
            self._skip_while(lambda text: text.startswith(("    ", "\t")))
        else:
            return False
        return True

    def _line(self, line: str) -> Iterator[Block]:
        if not line.strip():
            yield from self._flush()
        elif heading := _HEADING.match(line):
            yield from self._flush()
            yield self._heading(len(heading.group(1)), line[heading.end() :].strip().rstrip("#"))
        elif self._paragraph and (under := _UNDERLINE.match(line)) and not self._in_list:
            level = 1 if under.group(1)[0] == "=" else 2
            yield self._heading(level, " ".join(self._paragraph))
            self._paragraph.clear()
        elif _RULE.match(line) or _DEFINITION.match(line):
            yield from self._flush()
        elif self._is_plain and self._is_plain_heading(line):
            yield self._heading(2, line)
        else:
            yield from self._text(line)

    def _text(self, line: str) -> Iterator[Block]:
        item = _ITEM.match(line)
        if item:
            yield from self._flush()
            self._in_list = True
        elif not line.startswith((" ", "\t")) and not self._paragraph:
            self._in_list = False
        self._paragraph.append(line[item.end() :] if item else line)

    def _flush(self) -> Iterator[Block]:
        text = " ".join(self._paragraph)
        self._paragraph.clear()
        # An item that is nothing but a link belongs to a table of contents.
        if text and not (self._in_list and _ONLY_LINK.match(text)):
            yield Block(0, plain(text, self._labels), self._in_list)

    def _heading(self, level: int, text: str) -> Block:
        self._in_list = False
        return Block(level, plain(text, self._labels).rstrip(":").strip())

    def _skip_fence(self, fence: str) -> None:
        self._at += 1
        closing = re.compile(rf"[ \t]*{re.escape(fence[0])}{{{len(fence)},}}[ \t]*$")
        while self._at < len(self._lines) and not closing.match(self._lines[self._at]):
            self._at += 1
        self._at += 1

    def _skip_while(self, test: Callable[[str], bool]) -> None:
        while self._at < len(self._lines) and test(self._lines[self._at]):
            self._at += 1

    def _is_table(self) -> bool:
        line = self._lines[self._at]
        following = self._lines[self._at + 1] if self._at + 1 < len(self._lines) else ""
        row = line.strip()
        return ("|" in row and _TABLE_RULE.match(following) is not None) or (
            row.count("|") > 1 and row[0] == row[-1] == "|"
        )

    def _is_indented_code(self, line: str) -> bool:
        if self._is_plain or self._in_list or self._paragraph:
            return False
        return line.startswith(("    ", "\t")) and bool(line.strip()) and not _ITEM.match(line)

    def _is_plain_heading(self, line: str) -> bool:
        text = line.strip()
        following = self._lines[self._at] if self._at < len(self._lines) else ""
        if self._paragraph or following.strip() or len(text) > 70 or is_finished(text) or text[-1] in ":,;":
            return False
        return (text.isupper() and len(text) > 3) or _PLAIN_HEADING.match(text) is not None


def _without_links(text: str) -> str:
    text = _AUTOLINK.sub("", _IMAGE.sub("", text))
    # Twice, because a badge is an image inside a link and leaves an empty one.
    return _FOOTNOTE.sub("", _LINK.sub(r"\1", _LINK.sub(r"\1", text)))


def _span(code: str) -> str:
    return f"`{code.strip()}`" if "`" not in code and code.strip() else code.replace("`", "").strip()


def _unescaped(entity: re.Match[str]) -> str:
    return _CONTROL.sub("", html.unescape(entity.group())).replace("`", "")


def _without_emphasis(text: str) -> str:
    for pattern, group in ((_STARS, r"\2"), (_BARS, r"\2"), (_STRUCK, r"\1")):
        text = pattern.sub(group, pattern.sub(group, text))
    return text
