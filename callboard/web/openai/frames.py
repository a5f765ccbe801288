"""The events of a streamed response, made of those of a run; both have numbers that are the same at every process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from callboard.runs.events import Event, HandoffEvent, InterruptedEvent, StreamEvent, is_question

from .items import message_item, question_item, text_part
from .segments import Segment, is_last, is_said

SCALE: Final = 1000
"""Numbers for the frames of one event: frame `n * SCALE + i` comes from event `n`, which has at most three for each
member that is writing, and a few more."""

Frame = dict[str, Any]


@dataclass
class _Draft:
    """A message under way.

    Attributes:
        id: Of the item.
        index: Its place in the stream.
        text: What was shown of it.
    """

    id: str
    index: int
    text: str = ""


class Frames:
    """Makes the frames of a segment. Each item that begins is done before the segment ends.

    What was shown of a message counts when the item is done with the status `completed`. An attempt that is void, and what
    a member wrote before it called a tool, is done as `incomplete`, and in the response that comes last it is missing.

    Args:
        segment: What is shown.
    """

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._drafts: dict[str, _Draft] = {}  # by source
        self._begun = 0  # items

    def of(self, event: Event) -> list[Frame]:
        """The frames of an event."""
        frames = self._of(event)
        for at, frame in enumerate(frames):
            frame["sequence_number"] = event.number * SCALE + at
        return frames

    def _of(self, event: Event) -> list[Frame]:
        if isinstance(event, StreamEvent):
            return self._piece(event) if event.is_draft else []
        if is_said(event):
            return self._message(event.source, f"msg_{event.message['id']}", event.message["text"])
        if isinstance(event, InterruptedEvent) or (isinstance(event, HandoffEvent) and not event.is_draft):
            return self._void(event.source)
        if not is_last(event):
            return []
        void = [frame for source in list(self._drafts) for frame in self._void(source)]
        return void + (self._question(event) if is_question(event) else [])

    def _piece(self, event: StreamEvent) -> list[Frame]:
        draft, frames = self._drafts.get(event.source), list[Frame]()
        # One of which nothing says what it becomes goes on until it is said or void.
        if draft is None or (event.message_id and draft.id != f"msg_{event.message_id}"):
            name = event.message_id or f"{event.source}_{event.number}"
            frames = self._void(event.source) + self._new(event.source, f"msg_{name}")
            draft = self._drafts[event.source]
        draft.text += event.content
        return [*frames, _text(draft, "response.output_text.delta", delta=event.content)]

    def _message(self, source: str, id: str, text: str) -> list[Frame]:
        frames, draft = list[Frame](), self._drafts.get(source)
        if draft is None or draft.id != id:
            frames = self._void(source) + self._new(source, id)
            draft = self._drafts[source]
        left = text.removeprefix(draft.text)
        if left and text.startswith(draft.text):
            frames.append(_text(draft, "response.output_text.delta", delta=left))
        # Where a guardrail has changed it, the text that is done is the one that counts.
        draft.text = text
        return frames + self._done(source, "completed")

    def _new(self, source: str, id: str) -> list[Frame]:
        draft = self._drafts[source] = _Draft(id, self._begun)
        self._begun += 1
        item = {**message_item(id, source, "", "in_progress"), "content": []}
        place = {"item_id": id, "output_index": draft.index, "content_index": 0}
        return [
            {"type": "response.output_item.added", "output_index": draft.index, "item": item},
            {"type": "response.content_part.added", **place, "part": text_part("")},
        ]

    def _void(self, source: str) -> list[Frame]:
        return self._done(source, "incomplete") if source in self._drafts else []

    def _done(self, source: str, status: str) -> list[Frame]:
        draft = self._drafts.pop(source)
        place = {"item_id": draft.id, "output_index": draft.index, "content_index": 0}
        item = message_item(draft.id, source, draft.text, status)
        return [
            _text(draft, "response.output_text.done", text=draft.text),
            {"type": "response.content_part.done", **place, "part": text_part(draft.text)},
            {"type": "response.output_item.done", "output_index": draft.index, "item": item},
        ]

    def _question(self, event: Any) -> list[Frame]:
        item, index = question_item(self._segment, event), self._begun
        self._begun += 1
        place = {"item_id": item["id"], "output_index": index}
        begun = {**item, "arguments": "", "status": "in_progress"}
        arguments = item["arguments"]
        return [
            {"type": "response.output_item.added", "output_index": index, "item": begun},
            {"type": "response.function_call_arguments.delta", **place, "delta": arguments},
            {
                "type": "response.function_call_arguments.done",
                **place,
                "name": item["name"],
                "arguments": arguments,
            },
            {"type": "response.output_item.done", "output_index": index, "item": item},
        ]


def _text(draft: _Draft, kind: str, **fields: str) -> Frame:
    place = {"item_id": draft.id, "output_index": draft.index, "content_index": 0, "logprobs": []}
    return {"type": kind, **place, **fields}


def written(frame: Frame) -> bytes:
    """A frame as it is sent: JSON on one line."""
    return f"event: {frame['type']}\ndata: {json.dumps(frame)}\n\n".encode()
