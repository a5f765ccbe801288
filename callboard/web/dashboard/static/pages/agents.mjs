// Agent types, the agents of one for whom most waits, and all that is known of one agent.
import { useState } from "../vendor/hooks.mjs";
import { get, post, useGet } from "../api.mjs";
import { Act, Card, clock, Empty, Found, html, Icon, Json, lasted, Line, number, plain, rate, State } from "../ui.mjs";
import { go } from "../app.mjs";

const at = (...names) => `/agents/${names.map(encodeURIComponent).join("/")}`;

export function Agents({ live }) {
  if (live.look === null) return html`<h1>Agents</h1><div class="rows" aria-busy="true"><i></i><i></i><i></i></div>`;
  return html`<h1>Agents</h1><${Card} title="Agent types" count=${live.look.types.length}><${TypeRows} live=${live} /><//>`;
}

export function TypeRows({ live }) {
  const { look, history } = live;
  if (look.types.length === 0) return html`<${Empty} command="callboard up MODULE:APP">No agent type is declared yet. This starts an app:<//>`;
  const paused = new Set(look.paused.filter((one) => one.kind === "type").map((one) => one.name));
  return html`<div class="wide"><table><thead><tr><th>Type</th><th class="n">Waiting</th><th class="spare">The last hour</th><th class="n">Running</th><th class="n spare">Asking</th>
    <th class="n spare">Handled</th><th class="n spare">In all</th><th class="n">Dead</th></tr></thead>
    <tbody>${look.types.map((one) => html`<tr key=${one.type}><td><a href=${at(one.type)}><b>${plain(one.type)}</b></a>${paused.has(one.type) && html` <${State} of="paused" />`}</td>
      <td class="n">${number(one.waiting)}</td><td class="spare"><${Line} values=${history.map((point) => point.by_type[one.type] ?? null)} width=${90} height=${20} className="small" /></td>
      <td class="n">${number(one.running)}</td><td class="n spare">${one.asking ? html`<${State} of="input_required" word=${number(one.asking)} />` : html`<span class="quiet">0</span>`}</td><td class="n spare">${rate(one.rate)}/s</td><td class="n spare">${number(one.done)}</td>
      <td class="n">${one.dead ? html`<a href=${`/inbox?type=${encodeURIComponent(one.type)}`}><${State} of="failed" word=${number(one.dead)} /></a>` : html`<span class="quiet">0</span>`}</td></tr>`)}</tbody></table></div>`;
}

export function Type({ words: [type], live, may }) {
  const found = useGet(`/types/${encodeURIComponent(type)}`);
  const [key, setKey] = useState("");
  const seen = live.look?.types.find((one) => one.type === type);
  const isPaused = live.look?.paused.some((one) => one.kind === "type" && one.name === type);
  const workers = live.look?.workers.filter((one) => one.types.includes(type)) ?? [];
  return html`<p class="crumbs"><a href="/agents">Agents</a></p><div class="head"><h1>${plain(type)}</h1>${isPaused && html`<${State} of="paused" />`}
    <span class="acts"><${Act} does=${() => post("/pauses", { kind: "type", name: type, paused: !isPaused })} may=${may("operate")}>${isPaused ? "Resume" : "Pause"}<//></span></div>
    ${seen && html`<p class="facts"><span>waiting <b>${number(seen.waiting)}</b></span><span>running <b>${number(seen.running)}</b></span>
      <span>asking <b>${number(seen.asking)}</b></span><span>handled <b>${rate(seen.rate)}/s</b></span><span>in all <b>${number(seen.done)}</b></span>
      <span>dead <b>${number(seen.dead)}</b></span><span>workers with something of it <b>${workers.length}</b></span></p>`}
    <form class="filters" onSubmit=${(event) => { event.preventDefault(); if (key.trim()) go(at(type, key.trim())); }}>
      <input type="search" value=${key} placeholder="key of an agent" aria-label="Key of an agent" onInput=${(event) => setKey(event.target.value)} /><button>Look at it</button></form>
    <${Card} title="Agents for whom most waits" side=${html`<button onClick=${found.again}>Count again</button>`}><${Found} of=${found}>${(rows) => rows.length === 0
      ? html`<${Empty}>Nothing waits.<//>`
      : html`<table><thead><tr><th>Agent</th><th class="n">Waiting</th><th>Now</th><th class="n">State</th></tr></thead><tbody>${rows.map((one) => html`<tr key=${one.key}>
        <td><a class="mono" href=${at(one.type, one.key)}>${plain(one.type)}/${plain(one.key)}</a></td><td class="n">${number(one.waiting)}</td>
        <td>${one.running ? html`<${State} of="working" word="running" />` : html`<${State} of="queued" word="waits" />`}</td>
        <td class="n">${one.state_bytes ? `${(one.state_bytes / 1000).toFixed(1)} kB` : "-"}</td></tr>`)}</tbody></table>`}<//><//>`;
}

export function Agent({ words: [type, key], live, may }) {
  const found = useGet(`/agents/${encodeURIComponent(type)}/${encodeURIComponent(key)}`, [Math.floor(live.heard / 10_000)]);
  const [whole, setWhole] = useState(null);
  const name = `${type}/${key}`;
  const count = () => get(`/agents/${encodeURIComponent(type)}/${encodeURIComponent(key)}?unread=1`).then(setWhole);
  const order = (paused) => () => post("/pauses", { kind: "agent", name, paused }).then(found.again);
  return html`<p class="crumbs"><a href="/agents">Agents</a> / <a href=${at(type)}>${plain(type)}</a></p><${Found} of=${found}>${(one) => {
    const isPaused = one.paused.some((pause) => pause.kind === "key");
    return html`<div class="head"><h1 class="mono">${plain(key)}</h1><${State} of=${stateOf(one)} word=${wordOf(one)} />
      <span class="acts"><${Act} does=${order(!isPaused)} may=${may("operate")}>${isPaused ? "Resume" : "Pause"}<//></span></div>
    <div class="two"><${Card} title="Now"><dl>
      <dt>waiting</dt><dd>${number(one.waiting)}${one.oldest ? `, the oldest for ${lasted(one.at - one.oldest)}` : ""}</dd>
      <dt>with unread</dt><dd>${whole ? `${number(whole.waiting)} at ${clock(whole.at)} ` : ""}<${Act} className="more" does=${count}>${whole ? "count again" : "count"}<//></dd>
      <dt>handles</dt><dd>${one.running ? html`<span class="mono">${plain(one.running.type ?? "")}</span>${one.begun ? "" : ", not begun"}` : "nothing"}</dd>
      <dt>held by</dt><dd class="mono">${plain(one.holder ?? "-")}</dd>
      <dt>failed attempts</dt><dd>${number(one.attempts)}${one.deaths ? `, and ${one.deaths} deaths of workers` : ""}</dd>
      ${one.resumes && html`<dt>tries again</dt><dd>in ${lasted(one.resumes - one.at)}</dd>`}
      ${one.reason && html`<dt>because</dt><dd class="wrong">${plain(one.reason)}</dd>`}
      <dt>delayed</dt><dd>${one.delayed.length ? `${one.delayed.length}, the next in ${lasted(one.delayed[0].due - one.at)}` : "nothing"}</dd></dl>
      ${Object.entries(one.questions).map(([id, question]) => html`<p class="aside person" key=${id}><${Icon} name="person" /> ${plain(question.text)} ${question.is_for_people && html`<a href="/inbox">Answer</a>`}</p>`)}
      ${one.paused.map((pause) => html`<p class="aside" key=${pause.name}><${Icon} name="paused" /> ${plain(pause.kind)} ${plain(pause.name)} is paused${pause.by ? ` by ${plain(pause.by)}` : ""}${pause.since ? ` since ${clock(pause.since)}` : ""}</p>`)}
      ${one.letters.length > 0 && html`<h3>Dead letters</h3><ul class="letters">${one.letters.map((letter) => html`<li key=${letter}><a class="mono" href=${`/inbox?type=${encodeURIComponent(type)}`}>${plain(letter)}</a></li>`)}</ul>`}<//>
    <${Card} title="State" side=${one.state_version ? `${number(one.state_version)} commits, ${number(one.state_bytes)} bytes` : "none is stored"}>
      ${one.state === null ? html`<${Empty}>${one.state_version ? "It is too large to be shown." : "It has stored no state."}<//>` : html`<${Json} value=${one.state} />`}
      ${Object.keys(one.logs).length > 0 && html`<dl>${Object.entries(one.logs).map(([log, [items, bytes]]) => html`<dt>${plain(log)}</dt><dd>${number(items)} items, ${number(bytes)} bytes</dd>`)}</dl>`}<//></div>`;
  }}<//>`;
}

function stateOf(one) {
  if (one.paused.length) return "paused";
  if (Object.values(one.questions).some((question) => question.is_for_people)) return "input_required";
  if (one.resumes) return "late";
  return one.running ? "working" : one.waiting ? "queued" : "idle";
}

const wordOf = (one) => ({ late: "backs off", working: one.begun ? "running" : "about to run", queued: "waits" })[stateOf(one)] ?? null;
