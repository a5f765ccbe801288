"""Reading files and folders as documents."""

import os
from pathlib import Path

import pytest

from callboard.memory.documents import load_documents
from callboard.memory.errors import MemoryUnusableError


def written(path: Path, data: str | bytes = "Some text.\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def test_a_folder_is_read_in_order_without_what_is_not_its_own(tmp_path: Path) -> None:
    for name in (
        "b.md",
        "a.TXT",
        "README.md",
        "docs/z.md",
        "x.py",
        ".git/a.md",
        "node_modules/a.md",
        ".hidden.md",
    ):
        written(tmp_path / name)
    written(tmp_path / "empty.md", " \n")
    written(tmp_path / "image.md", b"\x89PNG\0\0")
    documents = load_documents(tmp_path)
    assert [one.name for one in documents.found] == ["README.md", "a.TXT", "b.md", "docs/z.md"]
    assert documents.left_out == ("empty.md: empty.", "image.md: not text.")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"caf\xe9 au lait", "caf\ufffd au lait"),
        (b"\xef\xbb\xbfmarked", "marked"),
        ("wide café".encode("utf-16"), "wide café"),
    ],
)
def test_any_encoding_gives_text(tmp_path: Path, data: bytes, text: str) -> None:
    assert load_documents(written(tmp_path / "a.md", data)).found[0].text == text


def test_what_cannot_be_read_is_said_in_a_sentence(tmp_path: Path) -> None:
    cases: list[tuple[Path, str]] = [
        (tmp_path / "no.md", "does not exist"),
        (written(tmp_path / "a.pdf"), "neither a .md nor a .txt"),
        (written(tmp_path / "zero.md", b"a\0b"), "not text"),
        (written(tmp_path / "empty.txt", ""), "is empty"),
        (written(tmp_path / "bare" / "a.py").parent, "holds no .md or .txt"),
        (written(tmp_path / "void" / "a.md", "\n").parent, "a.md: empty"),
    ]
    for path, words in cases:
        with pytest.raises(MemoryUnusableError, match=words) as caught:
            load_documents(path)
        assert caught.value.subject == str(path)
        assert str(type(caught.value)(*caught.value.args)) == str(caught.value)


def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    loop = tmp_path / "loop.md"
    loop.symlink_to(loop)
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "folder.md").mkdir()
    written(tmp_path / "good.md")
    assert [one.name for one in load_documents(tmp_path).found] == ["good.md"]
    with pytest.raises(MemoryUnusableError, match=r"neither a \.md nor a \.txt"):
        load_documents(tmp_path / "pipe.md")


def test_what_the_system_refuses_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied")

    path = written(tmp_path / "a.md")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(MemoryUnusableError, match=r"cannot be read \(Permission denied\)"):
        load_documents(path)
    with pytest.raises(MemoryUnusableError, match=r"a\.md: unreadable"):
        load_documents(tmp_path)
