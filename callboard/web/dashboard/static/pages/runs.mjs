// The runs of a namespace, the newest first.
import { useState } from "../vendor/hooks.mjs";
import { get, useGet } from "../api.mjs";
import { Act, Card, clock, Empty, Found, html, lasted, plain, short, State } from "../ui.mjs";
import { go } from "../app.mjs";

const STATES = ["", "working", "input_required", "failed", "completed", "paused", "cancelled"];
const WORDS = { "": "all", input_required: "waits for a person" };
const PAGE = 50;

export function Runs({ query, live }) {
  const [state, wanted] = [query.get("state") ?? "", (query.get("q") ?? "").toLowerCase()];
  const found = useGet(`/latest?limit=${PAGE}${state && `&state=${state}`}`, [wanted ? 0 : Math.floor(live.heard / 5000)]);
  const [older, setOlder] = useState({ of: null, runs: [], more: null });
  const [text, setText] = useState(query.get("q") ?? "");
  const rest = older.of === state ? older : { runs: [], more: null };
  const address = (changed) => {
    const next = new URLSearchParams(query);
    for (const [name, value] of Object.entries(changed)) value ? next.set(name, value) : next.delete(name);
    return `/runs${next.size ? `?${next}` : ""}`;
  };
  const more = async (last) => {
    const page = await get(`/latest?limit=${PAGE}${state && `&state=${state}`}&before=${encodeURIComponent(last.stream)}`);
    setOlder({ of: state, runs: [...rest.runs, ...page.runs], more: page.more });
  };
  return html`<h1>Runs</h1>
    <form class="filters" onSubmit=${(event) => { event.preventDefault(); go(address({ q: text.trim() })); }}>
      <input type="search" value=${text} placeholder="run, team, conversation or task" aria-label="Only runs that have this"
        onInput=${(event) => setText(event.target.value)} onSearch=${(event) => go(address({ q: event.target.value.trim() }))} />
      ${STATES.map((one) => html`<a key=${one} class="chip" href=${address({ state: one })} aria-current=${one === state ? "true" : null}>${WORDS[one] ?? one}</a>`)}</form>
    <${Card}><${Found} of=${found} rows=${8}>${({ runs, more: isMore }) => {
      const all = [...runs, ...rest.runs.filter((one) => !runs.some((other) => other.stream === one.stream))];
      const shown = wanted ? all.filter((one) => [one.run_id, one.team, one.conversation, one.task].some((name) => name.toLowerCase().includes(wanted))) : all;
      const isEnd = !(rest.more ?? isMore);
      return html`<${RunRows} runs=${shown} /><p class="foot">${shown.length} of ${all.length}${isEnd ? ", which are all" : " that are loaded"}
        ${!isEnd && all.length > 0 && html` <${Act} does=${() => more(all[all.length - 1])}>Older<//>`}</p>`;
    }}<//><//>`;
}

export function RunRows({ runs, isShort = false }) {
  if (runs.length === 0) return html`<${Empty} command='callboard ask APP TEAM "..."'>No such runs. This begins one:<//>`;
  return html`<table><thead><tr><th>Run</th><th>State</th>${!isShort && html`<th class="spare">Task</th>`}
    <th class="n">Took</th><th class="n spare">Began</th></tr></thead>
    <tbody>${runs.map((one) => html`<tr key=${one.stream}>
      <td>${one.id ? html`<a class="mono" href=${`/runs/${one.id}`} title=${one.run_id}>${short(one.run_id)}</a>` : html`<span class="mono">${short(one.run_id)}</span>`}
        <span class="under">${plain(one.team)}${one.conversation !== one.run_id && html` / ${short(one.conversation)}`}</span></td>
      <td><${State} of=${one.state} /></td>
      ${!isShort && html`<td class="cut spare">${plain(one.task)}${one.problem && html`<span class="under wrong">${plain(one.problem)}</span>`}</td>`}
      <td class="n">${one.ended ? lasted(new Date(one.ended) - new Date(one.began)) : lasted(Date.now() - new Date(one.began))}</td>
      <td class="n quiet spare">${clock(one.began)}</td></tr>`)}</tbody></table>`;
}
