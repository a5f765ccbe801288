"""Reads the body of an HTTP answer: as text, as an image, or not at all; never bytes shown as if they were text."""

from __future__ import annotations

import re
from typing import Final

from callboard.memory.errors import ImageError
from callboard.memory.llm_messages import Image

from .errors import HttpAnswerError

CONTROLS: Final = re.compile("[\0-\x06\x0e-\x1a]")  # no text has them
SVG: Final = "image/svg+xml"
UNKNOWN: Final = ("", "application/octet-stream", "binary/octet-stream")
OLD: Final = "cp1252"  # what texts of servers that name no character set are in, when they are not UTF-8


def read_answer(body: bytes, media_type: str, charset: str | None) -> str | Image:
    """What an answer holds.

    Args:
        body: Its bytes.
        media_type: As the server names it, without parameters; "": it names none.
        charset: The character set that the server names; None: none.

    Returns:
        A text, or an image of one of the formats that models take.

    Raises:
        HttpAnswerError: It is neither; the error says what it is and how large.
    """
    media_type = media_type.lower()
    if media_type in UNKNOWN or (media_type.startswith("image/") and media_type != SVG):
        image = _image(body)
        if image is not None:
            return image
    text = _text(body, media_type, charset)
    if text is None or CONTROLS.search(text):
        kind = media_type or "of no type"
        raise HttpAnswerError(f"it is binary ({kind}, {len(body):,} bytes), which can't be shown as text")
    return text


def _image(body: bytes) -> Image | None:
    try:
        return Image.from_bytes(body)
    except ImageError:
        return None


def _text(body: bytes, media_type: str, charset: str | None) -> str | None:
    """None: it is in no known character set."""
    if charset is not None:
        try:
            return body.decode(charset, "replace")
        except LookupError as error:
            raise HttpAnswerError(f"its character set is unknown ({error})") from error
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body.decode(OLD, "replace") if media_type.startswith("text/") else None
