// A run in time: a lane for each who spoke. Time in which nobody worked is shortened, so that the work is seen beside it.
import { useMemo } from "./vendor/hooks.mjs";
import { Card, clock, html, lasted, plain } from "./ui.mjs";

const LANES = 12;
const TICKS = 4;
const SHORTENED = 0.25; // of the time of work: the most that a time without work is wide

export function Timeline({ story, changed, now, hues }) {
  const found = useMemo(() => timeline(story, story.end ? null : now), [changed, story.end, Math.floor(now / 2000)]);
  if (found.lanes.length === 0) return null;
  const { lanes, spans, cuts, ticks, waited, whole } = found;
  const side = waited > 0 ? `${lasted(whole)}, of which ${lasted(waited)} waiting for a person` : lasted(whole);
  const place = (from, to) => ({ left: `${from * 100}%`, width: `max(4px, ${(to - from) * 100}%)` });
  return html`<${Card} title="Timeline" side=${side}><div class="timeline" role="img" aria-label=${`Who worked when, in ${side}`}>
    ${lanes.map((lane) => html`<div class="lane" key=${lane}><span class="lane-name">${plain(lane)}</span><div class="track">
      ${spans.filter((one) => one.source === lane).map((one, at) => html`<i key=${at} class=${`span ${one.kind === "turn" ? "work" : one.kind} ${hues.get(lane) ?? ""}`}
        style=${place(one.left, one.right)} title=${one.title}></i>`)}
      ${cuts.map((one, at) => html`<i key=${`cut${at}`} class="cut" style=${{ left: `${one * 100}%` }} title="Nobody worked: this time is shortened"></i>`)}</div></div>`)}
    <div class="lane ticks"><span class="lane-name"></span><div class="track">${ticks.map((one, at) => html`<span key=${at}
      style=${{ left: `${one.place * 100}%` }}>${one.text}</span>`)}</div></div></div><//>`;
}

const WORDS = { person: "a person was asked", void: "void" };

function timeline(story, now) {
  const spans = spansOf(story, now);
  if (spans.length === 0) return { lanes: [] };
  const from = time(story.began);
  const to = Math.max(from + 1, ...spans.map((one) => one.to));
  const scale = scaleOf(spans, from, to);
  const lanes = [...new Set(spans.map((one) => one.source))].slice(0, LANES);
  const ticks = Array.from({ length: TICKS + 1 }, (_, at) => at / TICKS);
  return {
    lanes,
    cuts: scale.cuts,
    spans: spans.map((one) => ({ ...one, left: scale.place(one.from), right: scale.place(one.to), title: `${plain(one.source)}: ${WORDS[one.kind] ?? "worked"}, ${lasted(one.to - one.from)}` })),
    ticks: ticks.map((place) => ({ place, text: place === 1 && now !== null ? "now" : clock(scale.time(place)) })),
    waited: spans.filter((one) => one.kind === "person").reduce((sum, one) => sum + one.to - one.from, 0),
    whole: to - from,
  };
}

const time = (at) => new Date(at).getTime();

function spansOf(story, now) {
  const spans = story.spans.map((one) => ({ ...one, from: time(one.from), to: time(one.to) }));
  if (now === null) return spans;
  for (const [source, at] of story.begun) spans.push({ source, from: time(at), to: now, kind: "turn" });
  for (const one of story.questions.values()) {
    if (one.status === "open") spans.push({ source: one.source, from: time(one.at), to: now, kind: "person" });
  }
  return spans;
}

// Places between 0 and 1 for times, and back.
function scaleOf(spans, from, to) {
  const times = [...new Set([from, to, ...spans.flatMap((one) => [one.from, one.to])])].sort((one, other) => one - other);
  const pieces = times.slice(1).map((end, at) => piece(spans, times[at], end));
  const worked = pieces.reduce((sum, one) => sum + (one.isWork ? one.width : 0), 0) || to - from;
  for (const one of pieces) {
    one.isCut = !one.isWork && one.width > worked * SHORTENED;
    if (one.isCut) one.width = worked * SHORTENED;
  }
  const whole = pieces.reduce((sum, one) => sum + one.width, 0) || 1;
  let width = 0;
  for (const one of pieces) {
    one.left = width / whole;
    width += one.width;
    one.right = width / whole;
  }
  const within = (part, start, end) => (end > start ? (part - start) / (end - start) : 0);
  return {
    cuts: pieces.filter((one) => one.isCut).map((one) => (one.left + one.right) / 2),
    place(at) {
      const one = pieces.find((other) => at <= other.end) ?? pieces[pieces.length - 1];
      return one.left + within(at, one.start, one.end) * (one.right - one.left);
    },
    time(place) {
      const one = pieces.find((other) => place <= other.right) ?? pieces[pieces.length - 1];
      return one.start + within(place, one.left, one.right) * (one.end - one.start);
    },
  };
}

// A time between two neighbouring beginnings or ends. Who waits for a person does no work.
function piece(spans, start, end) {
  const here = spans.filter((one) => one.from < end && one.to > start);
  const asking = new Set(here.filter((one) => one.kind === "person").map((one) => one.source));
  return { start, end, width: end - start, isWork: here.some((one) => one.kind !== "person" && !asking.has(one.source)) };
}
