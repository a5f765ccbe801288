// One run: what was said, as it is said; who is asked, why it waits, when who worked, what it used.
import { useMemo, useReducer, useRef, useState } from "../vendor/hooks.mjs";
import { post, useGet, useStream } from "../api.mjs";
import { Question } from "../answering.mjs";
import { fresh, KINDS, take } from "../story.mjs";
import { Timeline } from "../timeline.mjs";
import { Act, Card, clock, Found, html, Icon, Json, lasted, number, plain, short, State, Sure, useNow } from "../ui.mjs";

const NEWEST = 50; // turns that are shown at first

export function Run({ words: [id], live, may, me }) {
  const story = useRef(fresh());
  const [changed, change] = useReducer((count) => count + 1, 0);
  const beat = Math.floor(live.heard / 3000);
  const found = useGet(`/runs/${id}`, [story.current.end ? 0 : beat]);
  const [view, setView] = useState("conversation");
  const [isDetailed, setDetailed] = useState(true);
  useStream(`/runs/${id}/events?drafts=1`, KINDS, (kind, event) => {
    if (kind === "open" || kind === "broken") return;
    take(story.current, event);
    change();
  });
  return html`<${Found} of=${found} rows=${6}>${(run) => html`<${Shown} run=${run} story=${story.current} changed=${changed} may=${may} me=${me}
    live=${live} again=${found.again} view=${view} setView=${setView} isDetailed=${isDetailed} setDetailed=${setDetailed} />`}<//>`;
}

function Shown({ run, story, changed, may, me, live, again, view, setView, isDetailed, setDetailed }) {
  const now = useNow();
  const state = story.end?.state ?? run.state;
  const isOver = ["completed", "failed", "cancelled"].includes(state);
  const took = story.began && new Date(story.end?.at ?? now) - new Date(story.began);
  const order = (word) => () => post(`/runs/${run.id}/${word}`).then(again);
  const team = encodeURIComponent(run.service);
  const hues = huesOf(story);
  const tokens = run.tokens || [...story.usage.values()].reduce((sum, one) => sum + one.read + one.wrote, 0);
  return html`<p class="crumbs"><a href="/runs">Runs</a> / ${plain(run.service)} / ${short(run.conversation)}</p>
    <div class="head"><h1 class="mono" title=${run.run_id}>${short(run.run_id)}</h1><${State} of=${state} /><span class="quiet">${lasted(took)}</span>
      ${!isOver && html`<span class="acts">${state === "paused"
        ? html`<${Act} does=${order("resume")} may=${may("run")} needs="run">Resume<//>`
        : html`<${Act} does=${order("pause")} may=${may("run")} needs="run">Pause<//>`}
        <${Sure} word="Cancel run" sentence="It ends now. What was said is kept." does=${order("cancel")} may=${may("run")} needs="run" /></span>`}</div>
    <p class="facts"><span>team <a href=${`/agents/${team}`}>${plain(run.service)}</a></span>
      <span>began <b>${story.began ? clock(story.began) : "-"}</b></span><span>turns <b>${story.turns.filter((one) => one.kind === "said").length}</b></span>
      <span>tokens <b>${number(tokens)}</b></span>${run.usd > 0 && html`<span>cost <b>$${run.usd.toFixed(4)}</b></span>`}</p>
    ${run.error && html`<p class="problem"><${Icon} name="failed" /><span>${plain(run.error)}</span></p>`}
    <${Timeline} story=${story} changed=${changed} now=${now} hues=${hues} />
    <div class="columns"><div><div class="tabs" role="tablist">${["conversation", "json"].map((one) => html`<button key=${one} role="tab"
        aria-selected=${view === one} onClick=${() => setView(one)}>${one === "json" ? "JSON" : "Conversation"}</button>`)}
        <label class="side"><input type="checkbox" checked=${isDetailed} onChange=${() => setDetailed(!isDetailed)} /> tools and notes</label></div>
      ${view === "json" ? html`<${Json} value=${{ run, turns: story.turns, end: story.end }} />`
        : html`<${Conversation} story=${story} hues=${hues} run=${run} may=${may} me=${me} again=${again} isDetailed=${isDetailed} />`}</div>
    <aside>${!isOver && html`<${Why} run=${run} story=${story} state=${state} live=${live} />`}<${Used} story=${story} hues=${hues} run=${run} tokens=${tokens} changed=${changed} /></aside></div>`;
}

// What was said

const HUES = 5;

// A colour for each who speaks, in the order in which they do; the person who gave the task has none.
function huesOf(story) {
  const task = story.turns.find((one) => one.isTask);
  const names = [...story.turns.map((one) => one.source), ...story.drafts.keys(), ...story.usage.keys()];
  return new Map([...new Set(names)].filter((one) => one !== task?.source).map((one, at) => [one, `hue${at % HUES}`]));
}

function Conversation({ story, hues, run, may, me, again, isDetailed }) {
  const [most, setMost] = useState(NEWEST);
  const open = new Map(run.questions.map((one) => [one.id, one]));
  const turns = story.turns.slice(-most);
  // What is asked now stands under what the one who asks has written.
  const isOpen = (one) => one.kind === "question" && open.has(one.id) && story.questions.get(one.id).status === "open";
  const asks = new Set(turns.filter(isOpen).map((one) => one.source));
  const shown = (one) => html`<${Turn} key=${one.number} of=${one} story=${story} hues=${hues} open=${open} may=${may} me=${me} again=${again} isDetailed=${isDetailed} />`;
  return html`<div class="talk">${story.turns.length > most && html`<p><button onClick=${() => setMost(most + NEWEST)}>Earlier turns</button></p>`}
    ${turns.filter((one) => !isOpen(one)).map(shown)}
    ${[...story.drafts].map(([source, one]) => html`<article key=${`draft ${source}`} class="turn draft"><${Face} name=${source} hues=${hues} />
      <div><header><b>${plain(source)}</b> <span class="quiet">${asks.has(source) ? "asks" : "writes"}</span></header>
      ${one.calls.map((call, at) => html`<${Call} key=${at} of=${call} isAsked=${asks.has(source)} />`)}<p class="text">${plain(one.text)}${!asks.has(source) && html`<i class="caret"></i>`}</p></div></article>`)}
    ${turns.filter(isOpen).map(shown)}
    ${story.end && html`<p class=${`end ${story.end.state}`}><${State} of=${story.end.state} /> ${plain(story.end.text)}</p>`}</div>`;
}

function Face({ name, hues }) {
  const letters = hues.has(name) ? name.slice(0, 2) : name.slice(0, 1);
  return html`<span class=${`face ${hues.get(name) ?? "person"}`} aria-hidden="true">${plain(letters.charAt(0).toUpperCase() + letters.slice(1))}</span>`;
}

function Turn({ of, story, hues, open, may, me, again, isDetailed }) {
  if (of.kind === "handoff") return html`<p class="aside"><${Icon} name="queued" /> ${plain(of.source)} hands over to <b>${plain(of.text)}</b></p>`;
  if (of.kind === "note") return isDetailed && html`<p class="aside">${plain(of.text)}</p>`;
  if (of.kind === "void") {
    return html`<details class="void"><summary><${Icon} name="failed" /> An attempt of ${plain(of.source)} is void: its process is gone, and another one begins again</summary>
      <p class="text">${plain(of.text) || "It had shown nothing."}</p></details>`;
  }
  if (of.kind === "question") {
    const asked = story.questions.get(of.id);
    if (open.has(of.id) && asked.status === "open") return html`<${Question} of=${open.get(of.id)} may=${may} me=${me} done=${again} />`;
    const said = asked.status === "answered" ? html`${asked.by ? plain(asked.by) : "somebody"} answered <b>${answer(asked.value)}</b>` : asked.status === "open" ? "not open any more" : asked.status;
    return html`<p class="aside person"><${Icon} name="person" /> ${plain(of.text)} ${said}</p>`;
  }
  return html`<article class="turn"><${Face} name=${of.source} hues=${hues} /><div>
    <header><b>${plain(of.source)}</b> ${of.isTask && html`<span class="quiet">the task</span>`}
      <span class="side">${of.took ? `${lasted(of.took)} · ` : ""}${clock(of.at)}</span></header>
    ${isDetailed && of.calls.map((call, at) => html`<${Call} key=${at} of=${call} />`)}
    <${Text} of=${of.text} />${of.data !== undefined && html`<${Json} value=${of.data} folded=${true} />`}</div></article>`;
}

function answer(value) {
  if (typeof value === "object" && value !== null && typeof value.approved === "boolean") {
    if (!value.approved) return value.reason ? `no: ${plain(value.reason)}` : "no";
    return value.arguments ? `yes, with ${plain(JSON.stringify(value.arguments))}` : "yes";
  }
  return plain(typeof value === "string" ? value : JSON.stringify(value));
}

function Text({ of }) {
  const [isWhole, setWhole] = useState(of.length <= 4000);
  return html`<p class="text">${plain(isWhole ? of : of.slice(0, 2000))}${!isWhole && html`... <button class="more" onClick=${() => setWhole(true)}>all ${number(of.length)} characters</button>`}</p>`;
}

function Call({ of, isAsked = false }) {
  const shown = of.arguments.length > 160 ? `${of.arguments.slice(0, 160)}...` : of.arguments;
  return html`<details class=${`call ${of.isError ? "failed" : ""}`}><summary><${Icon} name="tool" /><code>${plain(of.name)}(${plain(shown)})</code>
    <span class="side">${of.result !== null ? (of.took ? lasted(of.took) : "") : isAsked ? html`<${State} of="input_required" />` : "runs"}</span></summary>
    ${of.arguments.length > 160 && html`<${Json} value=${of.arguments} />`}${of.result !== null && html`<${Json} value=${of.result} folded=${true} />`}</details>`;
}

// Beside it

function Why({ run, story, state, live }) {
  const types = live.look?.types.filter((one) => one.type === run.service || one.type.startsWith(`${run.service}.`)) ?? [];
  const paused = (live.look?.paused ?? []).filter((one) => types.some((type) => type.type === one.name.split("/")[0]));
  const lines = run.questions.map((one) => ["person", html`<b>${plain(one.agent)}</b> asked a person at ${clock(one.asked * 1000)}, and holds no process`]);
  for (const one of paused) lines.push(["paused", html`<b>${plain(one.name)}</b> is paused${one.by ? html` by ${plain(one.by)}` : ""}`]);
  if (state === "paused") lines.push(["paused", "the run is paused: nobody begins to speak"]);
  if (state === "queued") lines.push(["queued", "another run of this conversation is under way"]);
  if (lines.length === 0) {
    const working = [...story.begun.keys()];
    lines.push(["working", working.length ? html`<b>${working.map(plain).join(", ")}</b> ${working.length === 1 ? "works" : "work"}` : "its manager has the word"]);
  }
  if (live.look && live.look.workers.length === 0) lines.push(["late", "no worker runs: `callboard up` starts some"]);
  else if (paused.length === 0) lines.push(["ok", "nothing of it is paused"]);
  const waiting = types.reduce((sum, one) => sum + (one.waiting ?? 0), 0);
  lines.push([waiting ? "queued" : "ok", waiting ? `${number(waiting)} messages wait for its team, of all runs` : "no message waits for its team"]);
  return html`<${Card} title="Why it waits" className="whys"><ul class="why">${lines.map(([shape, text], at) => html`<li key=${at}><${Icon} name=${shape} className=${shape} /><p>${text}</p></li>`)}</ul><//>`;
}

function Used({ story, hues, run, tokens, changed }) {
  const rows = useMemo(() => [...story.usage], [changed]);
  const all = rows.reduce((sum, [, one]) => sum + one.read + one.wrote, 0);
  return html`<${Card} title="Used" side=${run.usd > 0 ? `$${run.usd.toFixed(4)}` : `${number(tokens)} tokens`}>
    ${rows.length === 0 ? html`<p class="empty">No model was asked yet.</p>` : html`<table><thead><tr><th>Agent</th><th class="n">Requests</th><th class="n">Read</th><th class="n">Wrote</th></tr></thead>
      <tbody>${rows.map(([source, one]) => html`<tr key=${source}><td>${plain(source)}<span class="bar"><i class=${hues.get(source) ?? ""} style=${{ width: `${all ? (100 * (one.read + one.wrote)) / all : 0}%` }}></i></span></td>
        <td class="n">${one.requests}</td><td class="n">${number(one.read)}</td><td class="n">${number(one.wrote)}</td></tr>`)}</tbody></table>`}<//>`;
}
