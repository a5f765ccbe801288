"""Reading files and folders, and making them fit."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.demo.documents import fit, load_documents, prepare
from actors.demo.errors import (
    DocumentBinaryError,
    DocumentEmptyError,
    DocumentError,
    DocumentKindError,
    DocumentMissingError,
    DocumentUnreadableError,
    NoDocumentsError,
)
from actors.demo.messages import Document
from broker import BrokerSettings


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
    assert [one.name for one in load_documents(tmp_path)] == ["README.md", "a.TXT", "b.md", "docs/z.md"]
    assert prepare(tmp_path).left_out == ["empty.md: empty.", "image.md: not text."]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"caf\xe9 au lait", "caf\ufffd au lait"),
        (b"\xef\xbb\xbfmarked", "marked"),
        ("wide café".encode("utf-16"), "wide café"),
    ],
)
def test_any_encoding_gives_text(tmp_path: Path, data: bytes, text: str) -> None:
    assert load_documents(written(tmp_path / "a.md", data))[0].text == text


def test_what_cannot_be_read_is_said_in_a_sentence(tmp_path: Path) -> None:
    cases: list[tuple[Path, type[DocumentError], str]] = [
        (tmp_path / "no.md", DocumentMissingError, "does not exist"),
        (written(tmp_path / "a.pdf"), DocumentKindError, "neither a .md nor a .txt"),
        (written(tmp_path / "zero.md", b"a\0b"), DocumentBinaryError, "not text"),
        (written(tmp_path / "empty.txt", ""), DocumentEmptyError, "is empty"),
        (written(tmp_path / "bare" / "a.py").parent, NoDocumentsError, "holds no .md or .txt"),
        (written(tmp_path / "void" / "a.md", "\n").parent, NoDocumentsError, "a.md: empty"),
    ]
    for path, error, words in cases:
        with pytest.raises(error, match=words) as caught:
            load_documents(path)
        assert caught.value.path == str(path)
        assert str(type(caught.value)(*caught.value.args)) == str(caught.value)


def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    loop = tmp_path / "loop.md"
    loop.symlink_to(loop)
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "folder.md").mkdir()
    written(tmp_path / "good.md")
    assert [one.name for one in load_documents(tmp_path)] == ["good.md"]
    with pytest.raises(DocumentKindError):
        load_documents(tmp_path / "pipe.md")


def test_what_the_system_refuses_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied")

    path = written(tmp_path / "a.md")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DocumentUnreadableError, match=r"cannot be read \(Permission denied\)"):
        load_documents(path)
    with pytest.raises(NoDocumentsError, match=r"a\.md: unreadable"):
        load_documents(tmp_path)


def test_titles_come_from_the_document_or_the_folder(tmp_path: Path) -> None:
    one = written(tmp_path / "docs" / "a.md", "# Alpha\n\nText.\n")
    written(tmp_path / "docs" / "b.md")
    assert prepare(one).title == "Alpha"
    assert prepare(one.parent).title == "docs"
    assert prepare([one, one.parent]).title == "Alpha"


def test_five_megabytes_become_one_message(tmp_path: Path) -> None:
    sentence = "Sentence number {} of file {} says something about durable actors and streams.\n\n"
    for file in range(200):
        text = f"# File {file}\n\n" + "".join(sentence.format(at, file) for at in range(310))
        written(tmp_path / f"f{file:03}.md", text)
    prepared = prepare(tmp_path)
    size = len(prepared.requirements("job").model_dump_json().encode())
    assert len(prepared.documents) == 200
    assert 700_000 < size < BrokerSettings().max_payload
    assert prepared.left_out == ["200 long files: 17 to 18 % kept of each, from all over it."]
    last = [one.text.rstrip().rsplit("number ", 1)[1].split()[0] for one in prepared.documents]
    assert min(map(int, last)) > 290
    assert prepare(tmp_path) == prepared


documents = st.lists(
    st.builds(Document, name=st.text("ab/.md", min_size=1, max_size=9), text=st.text(max_size=3_000)),
    min_size=1,
    max_size=9,
)


@given(documents, st.integers(1_000, 20_000))
def test_documents_fit_whatever_they_are(given_documents: list[Document], limit: int) -> None:
    fitting, left_out = fit(given_documents, limit)
    size = sum(len(one.text.encode()) + len(one.name.encode()) for one in fitting)
    assert size <= limit
    assert (fitting == given_documents) is not bool(left_out)
