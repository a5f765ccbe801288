// Who works.
import { Card, Empty, html, lasted, number, plain, State } from "../ui.mjs";

export function Workers({ live }) {
  if (live.look === null) return html`<h1>Workers</h1><div class="rows" aria-busy="true"><i></i><i></i></div>`;
  return html`<h1>Workers</h1><${Card}><${WorkerRows} workers=${live.look.workers} /><//>
    <p class="quiet">A worker whose lease is over gives no sign of life: others take over what it holds.</p>`;
}

export function WorkerRows({ workers }) {
  if (workers.length === 0) return html`<${Empty} command="callboard up MODULE:APP">No workers. This starts some:<//>`;
  return html`<table><thead><tr><th>Worker</th><th class="n">Holds</th><th class="n">Running</th><th class="n">Lease</th></tr></thead>
    <tbody>${workers.map((one) => html`<tr key=${one.name}><td><span class="mono">${plain(one.name)}</span>
      <span class="under">${one.types.map(plain).join(" ")}</span></td>
      <td class="n">${number(one.held)}</td><td class="n">${number(one.running)}</td>
      <td class="n">${one.lease_ms_left >= 0 ? lasted(one.lease_ms_left) : html`<${State} of="late" word="over" />`}</td></tr>`)}</tbody></table>`;
}
