import pytest

from examples.ask_model import SCRIPTED, main
from tests.helpers.openai_server import Answer, OpenAIServer


@pytest.fixture(autouse=True)
def no_model_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"):
        monkeypatch.delenv(name, raising=False)


async def test_without_a_key_a_scripted_model_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["ask_model"])

    await main()

    assert SCRIPTED in capsys.readouterr().out


@pytest.mark.parametrize("model", ["gpt-4o", "one-of-ours"])
async def test_any_server_can_be_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], model: str
) -> None:
    monkeypatch.setattr("sys.argv", ["ask_model", "Who", "are", "you?"])
    monkeypatch.setenv("OPENAI_MODEL", model)
    with OpenAIServer(Answer("A server.")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        await main()

    assert server.last.body["model"] == model
    assert server.last.body["messages"][-1]["content"] == "Who are you?"
    assert capsys.readouterr().out == "A server.\n(7 tokens read, 3 written)\n"
