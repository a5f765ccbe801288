"""Messages to models and from them, with the names of `autogen_core.models`, and the pictures in them.

Every message to a model can be sent on the bus, also with images in a list, which AutoGen's own can't.
These messages are values: frozen, and equal when their fields are.
"""

from __future__ import annotations

import base64
import binascii
import io
import operator
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from .errors import ImageError

SIGNATURES: Final = (
    ("image/png", b"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", b"\xff\xd8\xff"),
    ("image/gif", b"GIF87a"),
    ("image/gif", b"GIF89a"),
    ("image/bmp", b"BM"),
)
SNIFFED_CHARACTERS: Final = 16  # of base64, which are 12 bytes: enough for every signature
DATA_URI: Final = re.compile(r"data:(image/[\w.+-]+);base64,", re.IGNORECASE)
WEB_URL: Final = re.compile(r"https?://[^\s/]+\S*\Z", re.IGNORECASE)


class PilImage(Protocol):
    """An image of Pillow, as far as it is needed here."""

    def save(self, fp: Any, format: str | None = None) -> None: ...


class Image(BaseModel):
    """A picture: its bytes, or the address of one on the web that the model's server fetches.

    AutoGen wraps a Pillow image, so lists with one can't be read from JSON; this one is plain data, reads the
    `{"data": ...}` of AutoGen, and needs no Pillow. `Image(pillow_image)` is `Image.from_pil(pillow_image)`.

    Attributes:
        data: the file's bytes as base64; None when there is a URL.
        url: http:// or https:// address; None when there are bytes.
        mime_type: such as "image/png"; taken from the bytes when it is not given; "" for a URL.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str | None = None
    url: str | None = None
    mime_type: str = ""

    def __init__(self, image: PilImage | None = None, /, **fields: Any) -> None:
        """From an image of Pillow, as in AutoGen, or from fields."""
        super().__init__(**(fields if image is None else _fields_of(image)))

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        data, url = given.get("data"), given.get("url")
        if (data is None) == (url is None):
            raise ImageError("give either data or url")
        if url is not None:
            if not isinstance(url, str) or not WEB_URL.match(url):
                raise ImageError("the url has to begin with http:// or https://")
            return given
        if not isinstance(data, str):
            raise ImageError("data has to be base64 text; for bytes use Image.from_bytes")
        head = _decoded(data)[:SNIFFED_CHARACTERS]
        return given if given.get("mime_type") else {**given, "mime_type": _mime_type_of(head)}

    @classmethod
    def from_bytes(cls, data: bytes, mime_type: str | None = None) -> Image:
        """From the bytes of an image file.

        Args:
            data: PNG, JPEG, GIF, WebP or BMP; anything else only with its `mime_type`.
            mime_type: default: as the first bytes say.

        Raises:
            ImageError: the format is not known.
        """
        return cls(data=base64.b64encode(data).decode(), mime_type=mime_type or _mime_type_of(data))

    @classmethod
    def from_file(cls, file_path: Path | str) -> Image:
        """From a file. Reads it at once.

        Raises:
            ImageError: its format is not known.
            OSError: it can't be read.
        """
        return cls.from_bytes(Path(file_path).read_bytes())

    @classmethod
    def from_base64(cls, base64_str: str) -> Image:
        """From base64 text, with the format taken from the bytes.

        Raises:
            ImageError: it is no base64, or the format is not known.
        """
        return cls.from_bytes(_decoded(base64_str))

    @classmethod
    def from_uri(cls, uri: str) -> Image:
        """From a data URI, or from a web address, which is kept and not fetched.

        Raises:
            ImageError: it is neither.
        """
        if WEB_URL.match(uri):
            return cls(url=uri)
        found = DATA_URI.match(uri)
        if found is None:
            raise ImageError("a URI has to begin with data:image/...;base64, or with http")
        return cls.from_bytes(_decoded(uri[found.end() :]), found[1].lower())

    @classmethod
    def from_url(cls, url: str) -> Image:
        """From a web address, which is kept and not fetched.

        Raises:
            ImageError: it is no http or https address.
        """
        if not WEB_URL.match(url):
            raise ImageError("the url has to begin with http:// or https://")
        return cls(url=url)

    @classmethod
    def from_pil(cls, pil_image: PilImage) -> Image:
        """From an image of Pillow, kept as PNG."""
        return cls(**_fields_of(pil_image))

    def to_bytes(self) -> bytes:
        """The bytes of the image file.

        Raises:
            ImageError: it is a web address; nothing is fetched here.
        """
        return _decoded(self.to_base64())

    def to_base64(self) -> str:
        """The bytes as base64.

        Raises:
            ImageError: it is a web address; nothing is fetched here.
        """
        if self.data is None:
            raise ImageError("it is only known by its address, and nothing is fetched")
        return self.data

    @property
    def data_uri(self) -> str:
        """The bytes as a data URI.

        Raises:
            ImageError: it is a web address; nothing is fetched here.
        """
        return f"data:{self.mime_type};base64,{self.to_base64()}"

    @property
    def uri(self) -> str:
        """The web address, else the data URI."""
        return self.url if self.url is not None else self.data_uri

    def to_openai_format(self, detail: Literal["auto", "low", "high"] = "auto") -> dict[str, Any]:
        """The part of a chat message that OpenAI's API has for it."""
        return {"type": "image_url", "image_url": {"url": self.uri, "detail": detail}}

    def __repr__(self) -> str:
        # Messages are shown in errors and logs, which a megabyte of base64 would bury.
        shown = self.url if self.data is None else f"{self.mime_type}, {len(self.data) * 3 // 4:,} bytes"
        return f"Image({shown})"

    __str__ = __repr__


def _fields_of(image: PilImage) -> dict[str, str]:
    if not callable(getattr(image, "save", None)):
        raise ImageError(f"a {type(image).__name__} is no image of Pillow; for bytes use Image.from_bytes")
    file = io.BytesIO()
    image.save(file, format="PNG")
    return {"data": base64.b64encode(file.getvalue()).decode(), "mime_type": "image/png"}


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ImageError(f"the text is not base64 ({error})") from error


def _mime_type_of(data: bytes) -> str:
    """The MIME type that the first bytes of an image file tell.

    Raises:
        ImageError: none that is known here.
    """
    for mime_type, signature in SIGNATURES:
        if data.startswith(signature):
            return mime_type
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    raise ImageError("its bytes are neither PNG, JPEG, GIF, WebP nor BMP; say what it is with mime_type")


@dataclass(frozen=True)
class FunctionCall:
    """A call that the model asks for.

    Attributes:
        id: tells the calls of one answer apart; the result carries it back.
        arguments: a JSON object as text, as the model wrote it; it may not even be JSON.
        name: the tool's name.
    """

    id: str
    arguments: str
    name: str


class _FrozenMessage(BaseModel):
    model_config = ConfigDict(frozen=True)


class SystemMessage(_FrozenMessage):
    """An instruction of the developer for the model.

    Attributes:
        content: the text.
    """

    content: str
    type: Literal["SystemMessage"] = "SystemMessage"


class UserMessage(_FrozenMessage):
    """A message of a person or of another agent.

    Attributes:
        content: a text, or texts and images in their order.
        source: name of the agent or person it comes from.
    """

    content: str | list[str | Image]
    source: str
    type: Literal["UserMessage"] = "UserMessage"


class Vendor(BaseModel):
    """What a maker put beside an answer, such as signatures of thoughts, and wants back in the next request of a tool loop.

    It is opaque: kept, recorded and sent back as it is, to the same model at the same address only.

    Attributes:
        maker: address and model that it came from.
        message: fields of the message in the maker's API, in place of ours or beside them.
        calls: further fields of its calls, by their ids.
    """

    model_config = ConfigDict(frozen=True)

    maker: str
    message: dict[str, JsonValue] = Field(default_factory=dict)
    calls: dict[str, dict[str, JsonValue]] = Field(default_factory=dict)


class AssistantMessage(_FrozenMessage):
    """An answer of the model.

    Attributes:
        content: a text, or the calls it asks for.
        thought: its reasoning, or the text that came along with calls; None: there was none.
        source: name of the agent that the model answered for.
        vendor: what its maker wants back with it; None: nothing.
    """

    content: str | list[FunctionCall]
    thought: str | None = None
    source: str
    vendor: Vendor | None = Field(default=None, exclude_if=operator.not_)
    type: Literal["AssistantMessage"] = "AssistantMessage"


class FunctionExecutionResult(_FrozenMessage):
    """The result of one call.

    Attributes:
        content: the output, or the error, as text for the model.
        name: the tool's name.
        call_id: the id of the FunctionCall; some models give none, then it is "".
        is_error: whether it failed; None: unknown.
        images: images among what it returned, which a model that sees is shown; the content describes them. AutoGen's
            models never see them.
    """

    content: str
    name: str
    call_id: str
    is_error: bool | None = None
    images: list[Image] = Field(default_factory=list[Image], exclude_if=operator.not_)

    def without_images(self) -> FunctionExecutionResult:
        """The result as text only."""
        return self.model_copy(update={"images": []}) if self.images else self


class FunctionExecutionResultMessage(_FrozenMessage):
    """The results of the calls of the AssistantMessage before it.

    Attributes:
        content: one result for each call.
    """

    content: list[FunctionExecutionResult]
    type: Literal["FunctionExecutionResultMessage"] = "FunctionExecutionResultMessage"


LLMMessage: TypeAlias = Annotated[
    SystemMessage | UserMessage | AssistantMessage | FunctionExecutionResultMessage,
    Field(discriminator="type"),
]
