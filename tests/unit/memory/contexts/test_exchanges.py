from callboard.memory.contexts import exchanges, joined

from .conversation import answers, calls, results, says


def test_calls_and_their_results_belong_together() -> None:
    messages = [says("a"), calls("1", "2"), results("1"), results("2"), answers("b")]
    assert exchanges(messages) == [messages[:1], messages[1:4], messages[4:]]
    assert joined(exchanges(messages)) == messages


def test_results_without_their_call_are_left_out() -> None:
    assert exchanges([results("1"), results("2"), says("a"), results("3")]) == [[says("a")]]


def test_a_call_without_a_result_stays() -> None:
    assert exchanges([says("a"), calls("1")]) == [[says("a")], [calls("1")]]


def test_no_messages_have_no_exchanges() -> None:
    assert exchanges([]) == []
