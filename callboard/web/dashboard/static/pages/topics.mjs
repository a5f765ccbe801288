// Topics: what is published, and who subscribes.
import { useState } from "../vendor/hooks.mjs";
import { post, useGet } from "../api.mjs";
import { Act, Card, clock, Empty, Found, html, number, plain, State } from "../ui.mjs";

export function Topics({ live, may }) {
  const [isWhole, setWhole] = useState(false);
  const found = useGet(isWhole ? "/topics?all=1" : "/topics");
  const paused = new Set((live.look?.paused ?? []).filter((one) => one.kind === "topic").map((one) => one.name));
  const order = (name, value) => () => post("/pauses", { kind: "topic", name, paused: value });
  return html`<h1>Topics</h1><${Card}><${Found} of=${found} rows=${6}>${({ at, all, topics }) => html`
    ${topics.length === 0 ? html`<${Empty} command="callboard publish APP TOPIC TYPE">Nothing was published yet. This does:<//>`
      : html`<table><thead><tr><th>Topic</th><th>Subscribers</th><th class="n">Waiting</th><th class="n spare">Kept</th><th></th></tr></thead>
      <tbody>${topics.map((one) => html`<tr key=${one.type}><td class="mono">${plain(one.type)}</td>
        <td>${one.subscribers.length ? one.subscribers.map(plain).join(" ") : html`<${State} of="late" word="nobody subscribes" />`}
          ${paused.has(one.type) && html` <${State} of="paused" />`}</td>
        <td class="n">${number(waiting(one))}</td><td class="n spare">${number(one.length)}</td>
        <td class="n"><${Act} does=${order(one.type, !paused.has(one.type))} may=${may("operate")}>${paused.has(one.type) ? "Resume" : "Pause"}<//></td></tr>`)}
      </tbody></table>`}
    <p class="foot">${topics.length} of ${number(all)}, counted at ${clock(at)} <button onClick=${found.again}>Count again</button>
      ${!isWhole && topics.length < all && html` <button onClick=${() => setWhole(true)}>Count all</button>`}</p>`}<//><//>`;
}

function waiting(topic) {
  const counts = topic.groups.map((one) => (one.unread === null ? null : one.unread + one.pending));
  return counts.length === 0 || counts.includes(null) ? null : counts.reduce((sum, one) => sum + one, 0);
}
