// The parts of which pages are made. Texts are text nodes, whatever they say: nothing here makes markup of a text.
import { h } from "./vendor/preact.mjs";
import { useEffect, useState } from "./vendor/hooks.mjs";
import htm from "./vendor/htm.mjs";

export const html = htm.bind(h);

// Words

const UNITS = [
  [86_400, "d"],
  [3600, "h"],
  [60, "min"],
  [1, "s"],
];

export function lasted(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "-";
  const seconds = Math.max(0, ms / 1000);
  if (seconds < 10) return seconds < 0.95 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;
  for (let at = 0; at < UNITS.length; at += 1) {
    const [size, name] = UNITS[at];
    if (seconds >= size) {
      const next = UNITS[at + 1];
      const rest = next && at < 3 ? Math.floor((seconds % size) / next[0]) : 0;
      return `${Math.floor(seconds / size)} ${name}${rest ? ` ${rest} ${next[1]}` : ""}`;
    }
  }
  return "0 s";
}

export const number = (value) => (value === null || value === undefined ? "-" : value.toLocaleString("en-US"));
export const rate = (value) => {
  if (value === null || value === undefined) return "-";
  return value >= 10 ? number(Math.round(value)) : String(Math.round(value * 10) / 10);
};

const isToday = (date) => date.toDateString() === new Date().toDateString();
export function clock(when) {
  const date = new Date(when);
  if (Number.isNaN(date.getTime())) return "-";
  const time = date.toLocaleTimeString("en-GB");
  return isToday(date) ? time : `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${time}`;
}

// What is not seen, and what turns the order of letters round, is shown by its number.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
export const plain = (text) =>
  String(text ?? "").replace(UNSEEN, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

// A name that a program made is known by its beginning.
export const short = (name) => (/^[0-9a-f]{32}$/.test(name) ? `${name.slice(0, 12)}\u2026` : plain(name));

export const json = (value) => {
  let shown = value;
  if (typeof value === "string") {
    try {
      shown = JSON.parse(value);
    } catch {
      return plain(value);
    }
  }
  return plain(JSON.stringify(shown, null, 2));
};

export function useNow(every = 1000) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}

// Pictures

const SHAPES = {
  ok: "M3 8.500l3.500 3.500L13 4.500",
  working: "M4.500 2.500v11l9-5.500z",
  person: "M2 2.500h12v8.500H8.500L5.500 14v-3H2z",
  late: "M8 1.500L14.500 8 8 14.500 1.500 8z",
  failed: "M8 1.500L15 14H1zM8 6v4M8 11.800v.4",
  paused: "M4.500 3v10M11.500 3v10",
  cancelled: "M8 2a6 6 0 100 12A6 6 0 008 2zM4 4l8 8",
  queued: "M8 3a5 5 0 100 10A5 5 0 008 3z",
  overview: "M2 7.500L8 2l6 5.500V14H2z",
  runs: "M2 4h12M2 8h7M2 12h5M10.500 9.500v5l4-2.500z",
  inbox: "M2 9l2-6h8l2 6v5H2zM2 9h4l1 2h2l1-2h4",
  agents: "M6 7.500a2.500 2.500 0 100-5 2.500 2.500 0 000 5zM1.500 14c0-3 2-4.500 4.500-4.500s4.500 1.500 4.500 4.500M11 3a2.300 2.300 0 010 4.400M12 9.800c1.700.5 2.500 2 2.500 4.200",
  topics: "M2 4h12M2 8h12M2 12h12M5 2.500v3M11 6.500v3M7 10.500v3",
  workers: "M2 2.500h12v4.500H2zM2 9h12v4.500H2zM4.500 4.800h.1M4.500 11.300h.1",
  diary: "M3.500 2h9v12h-9zM6 5h4M6 8h4",
  tool: "M9.500 2.500a3.500 3.500 0 00-3.300 4.700L2 11.500 4.500 14l4.300-4.200a3.500 3.500 0 004.500-4.500L11 7.500 8.500 5z",
  search: "M7 12A5 5 0 107 2a5 5 0 000 10zM10.700 10.700L14.500 14.500",
  theme: "M13.500 9.500A6 6 0 016.500 2.500 6 6 0 1013.500 9.500z",
};
const FILLED = new Set(["working", "late"]);

export function Icon({ name, className = "" }) {
  return html`<svg class=${`icon ${FILLED.has(name) ? "filled" : ""} ${className}`} viewBox="0 0 16 16" aria-hidden="true">
    <path d=${SHAPES[name] ?? SHAPES.queued} /></svg>`;
}

const WORDS = {
  input_required: ["person", "waits for a person"],
  working: ["working", "working"],
  completed: ["ok", "completed"],
  failed: ["failed", "failed"],
  cancelled: ["cancelled", "cancelled"],
  paused: ["paused", "paused"],
  queued: ["queued", "waits its turn"],
  late: ["late", "late"],
  idle: ["ok", "idle"],
  unknown: ["queued", "unknown"],
};

export function State({ of, word = null }) {
  const [shape, text] = WORDS[of] ?? ["queued", of];
  return html`<span class=${`state ${shape}`}><${Icon} name=${shape} />${word ?? text}</span>`;
}

// A line of figures. Gaps stay gaps.
export function Line({ values, className = "", height = 36, width = 200 }) {
  const known = values.filter((one) => one !== null);
  if (known.length < 2) return html`<svg class=${`line ${className}`} viewBox=${`0 0 ${width} ${height}`}></svg>`;
  const top = Math.max(...known, 1);
  const place = (one, at) => [
    (at / (values.length - 1)) * width,
    height - 2 - (one / top) * (height - 6),
  ];
  const points = values.map((one, at) => (one === null ? null : place(one, at))).filter(Boolean);
  const path = points.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  const [first, last] = [points[0][0].toFixed(1), points[points.length - 1][0].toFixed(1)];
  return html`<svg class=${`line ${className}`} viewBox=${`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
    <path class="under" d=${`${path}L${last} ${height}L${first} ${height}Z`} /><path class="over" d=${path} /></svg>`;
}

// Blocks

export function Card({ title, count = null, side = null, children, className = "" }) {
  return html`<section class=${`card ${className}`}>
    ${title && html`<header><h2>${title}${count !== null && html` <span class="count">${number(count)}</span>`}</h2>
      ${side && html`<span class="side">${side}</span>`}</header>`}
    ${children}</section>`;
}

export function Empty({ children, command = "" }) {
  return html`<p class="empty">${children}${command && html` <code>${command}</code>`}</p>`;
}

export function Problem({ error, again = null }) {
  return html`<p class="problem" role="alert"><${Icon} name="failed" />
    <span>${plain(error.message)}</span>${again && html`<button onClick=${again}>Try again</button>`}</p>`;
}

// What an address gave, or why not, or grey rows while nothing has come yet.
export function Found({ of, children, rows = 4 }) {
  const { data, error, again } = of;
  if (data === null && error === null) {
    return html`<div class="rows" aria-busy="true">${[...Array(rows).keys()].map((one) => html`<i key=${one}></i>`)}</div>`;
  }
  return html`${error && html`<${Problem} error=${error} again=${again} />`}${data !== null && children(data)}`;
}

export function Json({ value, folded = false }) {
  const text = json(value);
  const isLong = text.length > 4000;
  const [isOpen, setOpen] = useState(!isLong && !folded);
  const shown = isOpen ? text : `${text.slice(0, 600)}${text.length > 600 ? " ..." : ""}`;
  return html`<pre class="json">${shown}${(isLong || (folded && text.length > 600)) &&
  html`<button class="more" onClick=${() => setOpen(!isOpen)}>${isOpen ? "less" : `all ${number(text.length)} characters`}</button>`}</pre>`;
}

// A button of an action: it says what went wrong, and can't be pressed twice.
export function Act({ does, children, className = "", may = true, needs = "operate", done = null }) {
  const [state, setState] = useState({ isBusy: false, error: null });
  const press = async () => {
    setState({ isBusy: true, error: null });
    try {
      await does();
      setState({ isBusy: false, error: null });
      if (done) done();
    } catch (error) {
      setState({ isBusy: false, error });
    }
  };
  return html`<span class="act"><button class=${className} disabled=${state.isBusy || !may}
    title=${may ? null : `your token lacks the scope ${needs}`} onClick=${press}>${children}</button>
    ${state.error && html`<span class="wrong" role="alert">${plain(state.error.message)}</span>`}</span>`;
}

// Two presses where one is too easy: the second says what will happen.
export function Sure({ does, word, sentence, may = true, needs = "operate", className = "danger", done = null }) {
  const [isAsked, setAsked] = useState(false);
  if (!isAsked) {
    return html`<button class=${className} disabled=${!may} title=${may ? null : `your token lacks the scope ${needs}`}
      onClick=${() => setAsked(true)}>${word}</button>`;
  }
  return html`<span class="sure" role="alertdialog" aria-label=${sentence}>${sentence}
    <${Act} className="danger" does=${does} done=${() => { setAsked(false); if (done) done(); }}>${word}<//>
    <button onClick=${() => setAsked(false)}>No</button></span>`;
}
