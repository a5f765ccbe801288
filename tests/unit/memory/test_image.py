from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from callboard.memory.errors import ImageError
from callboard.memory.llm_messages import Image

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"


@pytest.mark.parametrize(
    ("data", "mime_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a..", "image/gif"),
        (b"GIF87a..", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"BM......", "image/bmp"),
    ],
)
def test_the_format_is_taken_from_the_bytes(data: bytes, mime_type: str) -> None:
    image = Image.from_bytes(data)
    assert image.mime_type == mime_type
    assert image.to_bytes() == data
    assert image.data_uri == f"data:{mime_type};base64,{base64.b64encode(data).decode()}"


def test_an_unknown_image_needs_its_mime_type() -> None:
    with pytest.raises(ImageError, match="say what it is with mime_type"):
        Image.from_bytes(b"<svg/>")
    assert Image.from_bytes(b"<svg/>", "image/svg+xml").mime_type == "image/svg+xml"


def test_a_file_is_read_at_once(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    file.write_bytes(PNG)
    image = Image.from_file(file)
    file.unlink()
    assert image.to_bytes() == PNG
    with pytest.raises(FileNotFoundError):
        Image.from_file(file)


def test_base64_and_data_uris() -> None:
    image = Image.from_bytes(PNG)
    assert Image.from_base64(image.to_base64()) == image
    assert Image.from_uri(image.data_uri) == image
    with pytest.raises(ImageError, match="not base64"):
        Image.from_base64("###")
    with pytest.raises(ImageError, match="has to begin with data:image"):
        Image.from_uri("data:text/plain;base64,eA==")


def test_a_web_address_is_kept_and_not_fetched() -> None:
    image = Image.from_url("https://example.org/a.png")
    assert image == Image.from_uri("https://example.org/a.png")
    assert image.uri == "https://example.org/a.png"
    for read in (image.to_bytes, image.to_base64, lambda: image.data_uri):
        with pytest.raises(ImageError, match="nothing is fetched"):
            read()
    for bad in ("file:///etc/passwd", "https://", "a.png"):
        with pytest.raises(ImageError):
            Image.from_url(bad)


def test_the_part_of_a_chat_message() -> None:
    url = "https://example.org/a.png"
    assert Image.from_url(url).to_openai_format("low") == {
        "type": "image_url",
        "image_url": {"url": url, "detail": "low"},
    }


def test_an_image_is_plain_data() -> None:
    for image in (Image.from_bytes(PNG), Image.from_url("https://example.org/a.png")):
        assert Image.model_validate_json(image.model_dump_json()) == image


def test_images_written_by_autogen_can_be_read() -> None:
    written = {"data": base64.b64encode(PNG).decode()}
    assert TypeAdapter(str | Image).validate_python(written) == Image.from_bytes(PNG)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"data": "eA==", "url": "https://example.org"},
        {"data": 1},
        {"data": "###"},
        {"data": "eA=="},
        {"url": "gopher://example.org"},
        {"url": 1},
        "text",
    ],
)
def test_data_that_are_no_image_are_refused(given: Any) -> None:
    with pytest.raises(ValidationError):
        Image.model_validate(given)


def test_its_bytes_are_not_shown() -> None:
    assert repr(Image.from_bytes(PNG)) == str(Image.from_bytes(PNG)) == "Image(image/png, 15 bytes)"
    assert repr(Image.from_url("https://example.org/a")) == "Image(https://example.org/a)"


def test_an_image_of_pillow_becomes_png() -> None:
    class Picture:
        def save(self, fp: Any, format: str | None = None) -> None:
            assert format == "PNG"
            fp.write(PNG)

    assert Image.from_pil(Picture()) == Image(Picture()) == Image.from_bytes(PNG)


def test_what_is_no_image_of_pillow() -> None:
    not_one: Any = b"\x89PNG"
    with pytest.raises(ImageError, match="bytes is no image of Pillow"):
        Image(not_one)


def test_an_image_can_not_be_changed() -> None:
    with pytest.raises(ValidationError):
        Image.from_bytes(PNG).data = ""  # type: ignore[misc]
