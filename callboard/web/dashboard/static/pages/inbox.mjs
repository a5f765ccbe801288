// Who is asked, and what failed for good.
import { useState } from "../vendor/hooks.mjs";
import { post, useGet } from "../api.mjs";
import { Question } from "../answering.mjs";
import { Act, Card, clock, Empty, Found, html, Icon, Json, number, plain, short, State, Sure } from "../ui.mjs";
import { go } from "../app.mjs";

export function Inbox({ live, may, me, query }) {
  const asked = live.look ? `${live.look.questions} ${live.look.asked}` : "";
  const questions = useGet("/inbox", [asked]);
  const type = query.get("type") ?? "";
  const dead = live.look ? live.look.types.map((one) => one.dead).join() : "";
  const letters = useGet(`/dead?limit=500${type && `&type=${encodeURIComponent(type)}`}`, [dead]);
  const [chosen, choose] = useState(null);
  const types = live.look?.types.filter((one) => one.dead).map((one) => one.type) ?? [];
  const pick = html`<select aria-label="Agent type" value=${type} onChange=${(event) => go(`/inbox${event.target.value && `?type=${encodeURIComponent(event.target.value)}`}`)}>
    <option value="">all types</option>${types.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select>`;
  return html`<h1>Inbox</h1><div class="two"><div>
    <${Found} of=${questions} rows=${2}>${(found) => html`<${Card} title="Questions" count=${found.length}>
      ${found.length === 0 && html`<${Empty}>Nobody is asked.<//>`}
      ${found.map((one) => html`<div class="asked" key=${one.id}><p class="under">${one.run ? html`<a href=${`/runs/${one.run}`}>${called(one.agent)}</a>` : html`<a href=${place(one.agent)}>${called(one.agent)}</a>`}</p>
        <${Question} of=${one} may=${may} me=${me} done=${questions.again} /></div>`)}<//>`}<//>
    </div><div><${Found} of=${letters} rows=${3}>${(found) => html`<${Card} title="Dead letters" count=${found.length} side=${pick}>
      ${found.length === 0 && html`<${Empty}>Nothing has failed for good.<//>`}
      <ul class="groups">${grouped(found).map((group) => html`<${Group} key=${group.key} of=${group} may=${may} again=${letters.again} chosen=${chosen} choose=${choose} />`)}</ul><//>`}<//>
    ${chosen && html`<${Letter} key=${chosen} of=${chosen} may=${may} again=${() => { choose(null); letters.again(); }} />`}</div></div>`;
}

const called = (agent) => `${plain(agent.split("/")[0])}/${short(agent.split("/").slice(1).join("/"))}`;
const place = (agent) => `/agents/${agent.split("/").map(encodeURIComponent).join("/")}`;

// Letters of one type that failed in one way, the newest first.
function grouped(letters) {
  const groups = new Map();
  for (const one of letters) {
    const reason = (one.error || one.reason).split("\n")[0].slice(0, 200);
    const key = `${one.agent_type}\n${reason}`;
    if (!groups.has(key)) groups.set(key, { key, type: one.agent_type, reason, letters: [] });
    groups.get(key).letters.push(one);
  }
  return [...groups.values()];
}

function Group({ of, may, again, chosen, choose }) {
  const [isOpen, setOpen] = useState(false);
  const ids = of.letters.map((one) => one.id);
  const order = (word) => () => post(`/dead/${encodeURIComponent(of.type)}/${word}`, { letters: ids });
  const times = of.letters.map((one) => one.last).filter(Boolean);
  return html`<li><${Icon} name="failed" className="failed" /><div><p class="mono">${plain(of.reason)}</p>
    <p class="quiet"><a href=${`/agents/${encodeURIComponent(of.type)}`}>${plain(of.type)}</a> · ${number(ids.length)} ${ids.length === 1 ? "letter" : "letters"}
      ${times.length > 0 && ` · ${clock(Math.min(...times))} to ${clock(Math.max(...times))}`} ·
      ${" "}<button class="more" onClick=${() => setOpen(!isOpen)}>${isOpen ? "hide" : "show"}</button></p>
    ${isOpen && html`<ul class="letters">${of.letters.slice(0, 50).map((one) => html`<li key=${one.id}><button class="more mono" aria-pressed=${chosen === `${of.type}/${one.id}`}
      onClick=${() => choose(`${of.type}/${one.id}`)}>${plain(one.message_type)} to ${plain(one.key)}</button> <span class="quiet">${one.last ? clock(one.last) : ""}</span></li>`)}</ul>`}
    <p class="acts"><${Act} does=${order("replay")} may=${may("operate")} done=${again}>Send ${ids.length === 1 ? "" : `${number(ids.length)} `}again<//>
      <${Sure} word="Discard" sentence=${`${number(ids.length)} ${ids.length === 1 ? "letter" : "letters"} will be gone.`} does=${order("discard")} may=${may("operate")} done=${again} /></p></div></li>`;
}

function Letter({ of, may, again }) {
  const [type, id] = of.split("/").map((one) => encodeURIComponent(one));
  const found = useGet(`/dead/${type}/${id}`);
  const order = (word) => () => post(`/dead/${type}/${word}`, { letters: [decodeURIComponent(id)] });
  return html`<${Card} title=${html`<span class="mono">${plain(of)}</span>`} side=${html`<${State} of="failed" />`}><${Found} of=${found}>${(one) => html`<dl>
    <dt>message</dt><dd class="mono">${plain(one.message_type)} ${plain(one.message_id)}</dd><dt>to</dt><dd>${plain(one.agent_type)}/${plain(one.key)}</dd>
    <dt>from</dt><dd>${plain(one.sender ?? "outside")}, ${plain(one.stream)}</dd>
    <dt>tried</dt><dd>${number(one.attempts)} times${one.first ? `, ${clock(one.first)} to ${clock(one.last)}` : ""}</dd>
    <dt>last by</dt><dd class="mono">${plain(one.worker || "-")}</dd><dt>reason</dt><dd>${plain(one.reason)}</dd></dl>
    <h3>Message</h3>${one.problem ? html`<p class="wrong">${plain(one.problem)}</p>` : html`<${Json} value=${one.payload} />`}
    ${(one.traceback || one.error) && html`<h3>Error</h3><pre class="json">${plain(one.traceback || one.error)}</pre>`}
    <p class="acts foot"><${Act} className="primary" does=${order("replay")} may=${may("operate")} done=${again}>Send again<//>
      <${Sure} word="Discard" sentence="It will be gone." does=${order("discard")} may=${may("operate")} done=${again} /></p>`}<//><//>`;
}
