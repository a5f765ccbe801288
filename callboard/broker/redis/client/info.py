"""What a server tells of itself."""

from __future__ import annotations


def info_fields(answer: bytes) -> dict[str, str]:
    """The lines `name:value` of an answer to INFO."""
    lines = (line.partition(":") for line in answer.decode(errors="replace").splitlines())
    return {name: value.strip() for name, colon, value in lines if colon}
