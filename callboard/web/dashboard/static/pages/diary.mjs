// What has happened in the namespace, the newest first.
import { useGet } from "../api.mjs";
import { Card, clock, Empty, Found, html, plain } from "../ui.mjs";

export function Diary() {
  const found = useGet("/diary");
  return html`<h1>Diary</h1><${Card}><${Found} of=${found} rows=${8}>${(lines) => lines.length === 0
    ? html`<${Empty}>Nothing has happened yet.<//>`
    : html`<table><thead><tr><th>When</th><th>What</th><th>Of</th><th class="spare">More</th></tr></thead><tbody>${lines.map((one) => html`<tr key=${one.id}>
      <td class="quiet">${clock(Number(one.id.split("-")[0]))}</td><td>${plain(one.event)}</td>
      <td class="mono">${plain(one.of)}</td><td class="quiet cut spare">${plain([one.what, one.more].filter(Boolean).join(" · "))}</td></tr>`)}</tbody></table>`}<//><//>
    <p><button onClick=${found.again}>Look again</button></p>`;
}
