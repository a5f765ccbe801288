// A run as it is read: its events made into turns, drafts of what is being said, questions, and who worked when.

export const fresh = () => ({
  turns: [], drafts: new Map(), questions: new Map(), calls: new Map(), spans: [], begun: new Map(),
  usage: new Map(), asked: new Set(), end: null, last: 0, began: null, idle: null,
});

// Take the next event. The story is changed in place: `last` says that it is another one.
export function take(story, event) {
  if (event.number <= story.last && !event.is_draft && story.last) return story;
  story.last = Math.max(story.last, event.number);
  story.began ??= event.at;
  story.idle ??= event.at;
  TAKES[event.type]?.(story, event);
  return story;
}

// A draft says when somebody began. Of what is committed only the end is known: it began when the one before it ended.
const begins = (story, event) => {
  if (event.is_draft && event.source && !story.begun.has(event.source)) story.begun.set(event.source, story.idle);
};

function ends(story, event, kind = "turn") {
  const from = story.begun.get(event.source) ?? story.idle;
  story.begun.delete(event.source);
  if (event.source) story.spans.push({ source: event.source, from, to: event.at, kind });
  story.idle = event.at;
  return new Date(event.at) - new Date(from);
}

const draft = (story, source) => {
  if (!story.drafts.has(source)) story.drafts.set(source, { text: "", calls: [] });
  return story.drafts.get(source);
};

const call = (event) => ({ id: event.call_id, name: event.name, arguments: event.arguments, result: null, isError: false, at: event.at, took: null });

const TAKES = {
  agent_message(story, event) {
    const calls = story.calls.get(event.source) ?? [];
    story.calls.delete(event.source);
    story.drafts.delete(event.source);
    story.asked.delete(event.source);
    const isTask = story.turns.length === 0;
    const took = isTask ? null : ends(story, event);
    story.turns.push({ kind: "said", number: event.number, source: event.source, at: event.at, text: event.message.text ?? "", data: event.message.data, calls, isTask, took });
  },
  stream(story, event) {
    begins(story, event);
    if (event.is_draft) draft(story, event.source).text += event.content;
  },
  tool_call(story, event) {
    begins(story, event);
    if (event.is_draft) draft(story, event.source).calls.push(call(event));
    else story.calls.set(event.source, [...(story.calls.get(event.source) ?? []), call(event)]);
  },
  tool_result(story, event) {
    const calls = event.is_draft ? draft(story, event.source).calls : (story.calls.get(event.source) ?? []);
    const found = calls.find((one) => one.id === event.call_id && one.result === null);
    if (found) Object.assign(found, { result: event.content, isError: event.is_error, took: new Date(event.at) - new Date(found.at) });
    else if (event.is_draft || story.turns.length) calls.push({ ...call({ ...event, arguments: "" }), result: event.content, isError: event.is_error });
  },
  interrupted(story, event) {
    const void_ = story.drafts.get(event.source);
    story.drafts.delete(event.source);
    // One who asked holds no process meanwhile: with the answer it begins again, and nobody died.
    if (story.asked.delete(event.source)) return;
    story.turns.push({ kind: "void", number: `v${event.number}`, source: event.source, at: event.at, text: void_?.text ?? "" });
    ends(story, event, "void");
    story.begun.set(event.source, event.at);
  },
  speaker_selected(story, event) {
    for (const source of event.speakers) story.begun.set(source, event.at);
  },
  handoff(story, event) {
    story.turns.push({ kind: "handoff", number: event.number, source: event.source, at: event.at, text: event.target });
  },
  async_input_request(story, event) {
    if (story.questions.has(event.request_id)) return;
    story.questions.set(event.request_id, { ...event, value: null, status: "open" });
    story.asked.add(event.source);
    story.turns.push({ kind: "question", number: event.number, source: event.source, at: event.at, id: event.request_id, text: event.prompt });
  },
  input_request(story, event) {
    TAKES.async_input_request(story, event);
  },
  input_response(story, event) {
    const asked = story.questions.get(event.request_id);
    if (asked) {
      Object.assign(asked, { value: event.value, status: event.status, by: event.by });
      story.spans.push({ source: asked.source, from: asked.at, to: event.at, kind: "person" });
      story.idle = event.at;
    }
  },
  usage(story, event) {
    const used = story.usage.get(event.source) ?? { requests: 0, read: 0, wrote: 0 };
    story.usage.set(event.source, { requests: used.requests + 1, read: used.read + event.prompt_tokens, wrote: used.wrote + event.completion_tokens });
  },
  error(story, event) {
    story.end = { state: "failed", text: `${event.error_type}: ${event.content}`, where: event.where, at: event.at };
    story.drafts.clear();
  },
  completed(story, event) {
    story.end = { state: event.state, text: event.stop_reason ?? "", at: event.at };
    story.drafts.clear();
  },
};
for (const kind of ["system", "output"]) {
  TAKES[kind] = (story, event) => {
    if (!event.is_draft && event.value) story.turns.push({ kind: "note", number: event.number, source: event.source, at: event.at, text: event.value });
  };
}
export const KINDS = [...Object.keys(TAKES)];
