// A question for a person, and the form that answers it.
import { useState } from "./vendor/hooks.mjs";
import { post } from "./api.mjs";
import { Act, html, Icon, Json, lasted, plain, useNow } from "./ui.mjs";

// A question as the server gives it: id, question, choices, schema, details, to, asked, expires (seconds).
export function Question({ of, may, me, done = null }) {
  const now = useNow();
  const isForMe = of.to.length === 0 || of.to.includes(me.name);
  const { kind } = of.details;
  const form = kind === "tool_approval" || kind === "guardrail" ? Consent : Answer;
  return html`<section class="question"><header><${Icon} name="person" /><b>${plain(of.question)}</b>
    <span class="side">asked ${lasted(now - of.asked * 1000)} ago${of.expires ? `, expires in ${lasted(of.expires * 1000 - now)}` : ""} ·
      ${" "}${of.to.length ? `for ${of.to.map(plain).join(", ")}` : "anybody may answer"}</span></header>
    ${isForMe ? html`<${form} of=${of} may=${may("answer")} me=${me} done=${done} />`
      : html`<p class="quiet">You are ${plain(me.name)}: somebody else is asked.</p>`}</section>`;
}

const send = (of, answer) => () => post(`/inbox/${encodeURIComponent(of.id)}`, { answer });

// Yes or no, with the arguments of the call that is asked about: it is made with what stands here.
function Consent({ of, may, me, done }) {
  const given = of.details.arguments ?? {};
  const [edited, setEdited] = useState(Object.fromEntries(Object.entries(given).map(([name, value]) => [name, written(value)])));
  const [reason, setReason] = useState("");
  const [wrong, setWrong] = useState("");
  const isCall = of.details.kind === "tool_approval";
  const changed = Object.keys(given).filter((name) => edited[name] !== written(given[name]));
  const yes = async () => {
    const answer = { approved: true };
    if (isCall && changed.length) {
      answer.arguments = { ...given };
      for (const name of changed) {
        try {
          answer.arguments[name] = read(edited[name], given[name]);
        } catch {
          setWrong(name);
          throw new Error(`${name} is no JSON`);
        }
      }
    }
    setWrong("");
    await send(of, answer)();
  };
  return html`<div class="fields">${isCall && Object.entries(given).map(([name, value]) => html`<label key=${name}><span>${plain(name)}
      <small> ${kindOf(value)}${changed.includes(name) ? ", changed" : ""}</small></span>
      <textarea class=${wrong === name ? "bad" : ""} rows=${Math.min(8, edited[name].split("\n").length)} disabled=${!may} value=${edited[name]}
        onInput=${(event) => setEdited({ ...edited, [name]: event.target.value })}></textarea></label>`)}
    <label class="wide"><span>Why not <small> only with a no; the model reads it</small></span>
      <input disabled=${!may} value=${reason} onInput=${(event) => setReason(event.target.value)} /></label></div>
    <footer><${Act} className="primary" does=${yes} may=${may} needs="answer" done=${done}>${isCall ? "Yes, call it" : "Yes"}<//>
      <${Act} does=${send(of, reason ? { approved: false, reason } : { approved: false })} may=${may} needs="answer" done=${done}>No<//>
      <span class="quiet">as <b>${plain(me.name)}</b>${isCall ? ". The call that runs is the one that is shown." : ""}</span></footer>`;
}

const written = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 1));
const read = (text, before) => (typeof before === "string" ? text : JSON.parse(text));
const kindOf = (value) => (Array.isArray(value) ? "list" : value === null ? "null" : typeof value);

// A choice, a yes or no, a number, a text, or JSON: whatever the schema asks for.
function Answer({ of, may, me, done }) {
  const [text, setText] = useState("");
  const { type } = of.schema;
  const rest = Object.entries(of.details).filter(([name]) => !["kind", "agent", "source"].includes(name));
  const shown = rest.length > 0 && html`<${Json} value=${Object.fromEntries(rest)} />`;
  const as = html`<span class="quiet">as <b>${plain(me.name)}</b></span>`;
  const buttons = of.choices.length ? of.choices.map((one) => [one, one]) : type === "boolean" ? [["Yes", true], ["No", false]] : null;
  if (buttons) {
    return html`${shown}<footer>${buttons.map(([word, value]) => html`<${Act} key=${word} does=${send(of, value)} may=${may} needs="answer" done=${done}>${plain(word)}<//>`)}${as}</footer>`;
  }
  const isText = type === "string" || Object.keys(of.schema).length === 0;
  const answer = () => {
    if (isText) return text;
    try {
      return JSON.parse(text);
    } catch {
      if (type === undefined) return text;
      throw new Error(`${of.schema.title ?? type} is asked for, as JSON`);
    }
  };
  return html`${shown}<div class="fields"><label class="wide"><span>${isText ? "Answer" : plain(of.schema.title ?? type ?? "Answer")}
      <small> ${isText ? "" : type === "integer" || type === "number" ? "a number" : "JSON"}</small></span>
      <textarea rows="3" disabled=${!may} value=${text} onInput=${(event) => setText(event.target.value)}></textarea></label></div>
    <footer><${Act} className="primary" does=${async () => send(of, answer())()} may=${may} needs="answer" done=${done}>Answer<//>${as}</footer>`;
}
