// How things stand: four figures, what needs somebody, agent types, the newest runs, workers.
import { useGet } from "../api.mjs";
import { Card, Empty, Found, html, Icon, lasted, Line, number, plain, rate, State, useNow } from "../ui.mjs";
import { RunRows } from "./runs.mjs";
import { WorkerRows } from "./workers.mjs";
import { TypeRows } from "./agents.mjs";

const LATE = 60; // messages of a type that nobody works on
const MOST_READ = 20; // questions that are read to show the oldest
const MOST_ABOUT = 5; // agent types whose newest dead letter is looked at

export function Overview({ live, may }) {
  const runs = useGet("/latest?limit=8", [Math.floor(live.heard / 5000)]);
  if (live.look === null) return html`<h1>Overview</h1><div class="rows" aria-busy="true"><i></i><i></i><i></i></div>`;
  return html`<h1>Overview</h1><${Figures} live=${live} /><${Needs} live=${live} />
    <${Card} title="Agent types" count=${live.look.types.length} side="handled in a second, over 10 s">
      <${TypeRows} live=${live} /><//>
    <div class="two"><${Card} title="Latest runs" side=${html`<a href="/runs">All</a>`}>
      <${Found} of=${runs}>${({ runs: found }) => html`<${RunRows} runs=${found} isShort=${true} />`}<//><//>
    <${Card} title="Workers" count=${live.look.workers.length}><${WorkerRows} workers=${live.look.workers} /><//></div>`;
}

const summed = (types, name) => {
  const found = types.map((one) => one[name]);
  return found.includes(null) ? null : found.reduce((sum, one) => sum + one, 0);
};

function Figures({ live }) {
  const { look, history } = live;
  const rates = look.types.map((one) => one.rate).filter((one) => one !== null);
  const dead = summed(look.types, "dead");
  const most = [...look.types].sort((one, other) => (other.waiting ?? 0) - (one.waiting ?? 0))[0];
  return html`<div class="figures">
    <${Figure} name="Handled" value=${rates.length ? rate(rates.reduce((sum, one) => sum + one, 0)) : "-"} unit="/s"
      more=${`${number(summed(look.types, "done"))} in all`} values=${history.map((one) => one.rate)} />
    <${Figure} name="Waiting" value=${number(summed(look.types, "waiting"))} className=${most?.waiting > LATE ? "late" : ""}
      more=${most?.waiting ? `most of it ${plain(most.type)}` : "nothing waits"} values=${history.map((one) => one.waiting)} />
    <${Figure} name="Running" value=${number(summed(look.types, "running"))} unit=${`on ${look.workers.length} ${look.workers.length === 1 ? "worker" : "workers"}`}
      more="handlers, at the last heartbeats" values=${history.map((one) => one.running)} />
    <${Figure} name="Dead letters" value=${number(dead)} className=${dead ? "failed" : ""}
      more=${`${number(summed(look.types, "died"))} ever`} /></div>`;
}

function Figure({ name, value, unit = "", more, values = null, className = "" }) {
  return html`<section class=${`card figure ${className}`}><h2>${name}</h2><p class="value">${value} <small>${unit}</small></p>
    <p class="more">${more}</p>${values && html`<${Line} values=${values} />`}</section>`;
}

function Needs({ live }) {
  const now = useNow();
  const found = needs(live.look, now);
  return html`<${Card} title="Needs you" count=${found.length || null} className="needs">
    ${found.length === 0 && html`<${Empty}>Nothing needs you.<//>`}
    <ul>${found.map((one) => html`<li key=${one.key}><${Icon} name=${one.shape} className=${one.shape} />
      <div><p><b>${plain(one.subject)}</b> ${plain(one.text)}</p>${one.about ? html`<${About} of=${one.about} />` : one.more && html`<p class="quiet">${plain(one.more)}</p>`}</div>
      <a class=${`button ${one.shape === "person" ? "primary" : ""}`} href=${one.href}>${one.word}</a></li>`)}</ul><//>`;
}

// The oldest question, or how the newest letter failed: asked for when there is another one.
function About({ of: { path, changed, line } }) {
  const { data } = useGet(path, [changed]);
  const text = data && data.length > 0 ? line(data[0]) : "";
  return text && html`<p class="quiet cut">${plain(text.slice(0, 300))}</p>`;
}

// What somebody has to look at, the worst first.
export function needs(look, now) {
  const found = [];
  if (look.questions) {
    const some = look.questions === 1 ? "1 question waits" : `${number(look.questions)} questions wait`;
    found.push({ key: "questions", shape: "person", subject: some, text: `for an answer, the oldest for ${lasted(now - look.asked)}`, href: "/inbox", word: "Answer" });
    // Where there are very many it costs more than it says.
    if (look.questions <= MOST_READ) found[0].about = { path: "/inbox", changed: `${look.questions} ${look.asked}`, line: (one) => `${one.agent.split("/")[0]}: ${one.question}` };
  }
  for (const one of look.types) {
    if (one.dead) {
      const some = one.dead === 1 ? "1 dead letter" : `${number(one.dead)} dead letters`;
      found.push({ key: `dead ${one.type}`, shape: "failed", subject: some, text: `of ${one.type}`, href: `/inbox?type=${encodeURIComponent(one.type)}`, word: "Look" });
      if (found.length <= MOST_ABOUT) found[found.length - 1].about = { path: `/dead?limit=1&type=${encodeURIComponent(one.type)}`, changed: one.died, line: (letter) => letter.error || letter.reason };
    }
  }
  const worked = new Set(look.workers.filter((one) => one.lease_ms_left >= 0).flatMap((one) => one.types));
  for (const one of look.types) {
    if (one.waiting && !one.running && !worked.has(one.type) && look.workers.length === 0) {
      found.push({ key: `idle ${one.type}`, shape: "late", subject: one.type, text: `has ${number(one.waiting)} waiting, and no worker runs`, href: `/agents/${encodeURIComponent(one.type)}`, word: "Agents" });
    }
  }
  for (const one of look.workers) {
    if (one.lease_ms_left < 0) {
      found.push({ key: one.name, shape: "late", subject: `worker ${one.name}`, text: `gives no sign of life; its lease is over since ${lasted(-one.lease_ms_left)}`, more: "Others take over what it holds.", href: "/workers", word: "Workers" });
    }
  }
  for (const one of look.paused) {
    const what = { key: "agent", type: "type", topic: "topic" }[one.kind] ?? one.kind;
    const since = one.since ? ` for ${lasted(now - one.since)}` : "";
    found.push({ key: `paused ${one.kind} ${one.name}`, shape: "paused", subject: `${what} ${one.name}`, text: `is paused${since}${one.by ? ` by ${one.by}` : ""}`, href: one.kind === "topic" ? "/topics" : `/agents/${one.name.split("/").map(encodeURIComponent).join("/")}`, word: "Look" });
  }
  return found;
}
