"""ListMemory has everything, always."""

from __future__ import annotations

from callboard.memory import ListMemory
from callboard.memory.contexts import UnboundedChatCompletionContext
from tests.unit.memory.contents import text


async def test_it_keeps_everything_in_order() -> None:
    memory = ListMemory("facts", [text("one")])
    await memory.add(text("two"))

    assert memory.name == "facts"
    assert (await memory.query("whatever")).results == memory.content == [text("one"), text("two")]


async def test_a_query_gives_a_list_of_its_own() -> None:
    memory = ListMemory(memory_contents=[text("one")])
    (await memory.query()).results.clear()

    assert memory.content == [text("one")]
    assert memory.name == "default_list_memory"


async def test_all_of_it_goes_into_a_context() -> None:
    memory, context = ListMemory(memory_contents=[text("one"), text("two")]), UnboundedChatCompletionContext()

    result = await memory.update_context(context)

    (message,) = await context.get_messages()
    assert message.content == "\nRelevant memory content (in chronological order):\n1. one\n2. two"
    assert result.memories.results == memory.content


async def test_a_cleared_memory_is_empty() -> None:
    memory = ListMemory(memory_contents=[text("one")])
    await memory.clear()
    await memory.close()

    assert memory.content == []
    memory.content = [text("two")]
    assert (await memory.query()).results == [text("two")]
