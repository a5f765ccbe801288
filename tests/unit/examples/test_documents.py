"""Making the documents of files and folders fit one message."""

from pathlib import Path

from hypothesis import given, strategies as st

from callboard.broker import BrokerSettings
from examples.digest.documents import fit, prepare
from examples.digest.messages import Document


def written(path: Path, data: str = "Some text.\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data, encoding="utf-8")
    return path


def test_what_is_not_read_in_a_folder_is_left_out(tmp_path: Path) -> None:
    written(tmp_path / "a.md")
    written(tmp_path / "empty.md", " \n")
    assert prepare(tmp_path).left_out == ["empty.md: empty."]


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
