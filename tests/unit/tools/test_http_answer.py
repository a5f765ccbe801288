"""What an HTTP answer holds."""

from __future__ import annotations

import pytest

from callboard.memory.llm_messages import Image
from callboard.tools.errors import HttpToolError
from callboard.tools.http import read_answer

PNG = b"\x89PNG\r\n\x1a\n\0\0"


@pytest.mark.parametrize(
    ("body", "media_type", "charset", "text"),
    [
        (b"plain", "text/plain", None, "plain"),
        ("é".encode(), "application/json", None, "é"),
        ("é".encode("latin-1"), "text/plain", "latin-1", "é"),
        ("é €".encode("cp1252"), "text/html", None, "é €"),
        ("é".encode("utf-16"), "text/plain", "utf-16", "é"),
        (b"<svg/>", "image/svg+xml", None, "<svg/>"),
        (b"no type at all", "", None, "no type at all"),
        (b"as a file", "application/octet-stream", None, "as a file"),
        (b"GIF", "image/png", None, "GIF"),
        (b"", "image/png", None, ""),
        (b"\tone\r\n\x1b[1mtwo", "text/plain", None, "\tone\r\n\x1b[1mtwo"),
    ],
)
def test_texts(body: bytes, media_type: str, charset: str | None, text: str) -> None:
    assert read_answer(body, media_type, charset) == text


@pytest.mark.parametrize(
    "media_type", ["image/png", "IMAGE/PNG", "image/whatever", "", "application/octet-stream"]
)
def test_images_are_told_by_their_bytes(media_type: str) -> None:
    assert read_answer(PNG, media_type, None) == Image.from_bytes(PNG)


@pytest.mark.parametrize(
    ("body", "media_type", "charset", "text"),
    [
        (b"%PDF\xff\x00", "application/pdf", None, r"binary \(application/pdf, 6 bytes\)"),
        (b"a\0b", "text/plain", None, r"binary \(text/plain, 3 bytes\)"),
        (b"a\0b", "text/plain", "utf-8", r"binary \(text/plain, 3 bytes\)"),
        (b"II*\0\xff", "image/tiff", None, r"binary \(image/tiff, 5 bytes\)"),
        (b"\xff\xfe\x01", "", None, r"binary \(of no type, 3 bytes\)"),
        (b"x", "text/plain", "nonsense", "character set is unknown"),
    ],
)
def test_what_is_neither_is_refused(body: bytes, media_type: str, charset: str | None, text: str) -> None:
    with pytest.raises(HttpToolError, match=text):
        read_answer(body, media_type, charset)
