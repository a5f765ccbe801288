// The dashboard: who looks, where, and what is live. Each page is a file of pages/, and a line of the table below.
import { render } from "./vendor/preact.mjs";
import { useEffect, useRef, useState } from "./vendor/hooks.mjs";
import { get, signIn, useStream } from "./api.mjs";
import { html, Icon, number, plain, Problem } from "./ui.mjs";
import { Overview } from "./pages/overview.mjs";
import { Runs } from "./pages/runs.mjs";
import { Run } from "./pages/run.mjs";
import { Inbox } from "./pages/inbox.mjs";
import { Agent, Agents, Type } from "./pages/agents.mjs";
import { Topics } from "./pages/topics.mjs";
import { Workers } from "./pages/workers.mjs";
import { Diary } from "./pages/diary.mjs";

const PAGES = [
  [/^\/$/, Overview],
  [/^\/runs$/, Runs],
  [/^\/runs\/([^/]+)$/, Run],
  [/^\/inbox$/, Inbox],
  [/^\/agents$/, Agents],
  [/^\/agents\/([^/]+)$/, Type],
  [/^\/agents\/([^/]+)\/(.+)$/, Agent],
  [/^\/topics$/, Topics],
  [/^\/workers$/, Workers],
  [/^\/diary$/, Diary],
];
const RAIL = [
  ["/", "Overview", "overview", "o"],
  ["/runs", "Runs", "runs", "r"],
  ["/inbox", "Inbox", "inbox", "i"],
  null,
  ["/agents", "Agents", "agents", "a"],
  ["/topics", "Topics", "topics", "t"],
  ["/workers", "Workers", "workers", "w"],
  ["/diary", "Diary", "diary", "d"],
];
const POINTS = 720;
const POINT = 5000; // ms

// Where

const here = () => ({ path: location.pathname, query: new URLSearchParams(location.search) });

export function go(address, replaces = false) {
  history[replaces ? "replaceState" : "pushState"](null, "", address);
  dispatchEvent(new Event("went"));
}

function useHere() {
  const [place, setPlace] = useState(here());
  useEffect(() => {
    const went = () => setPlace(here());
    const clicked = (event) => {
      const link = event.target.closest?.("a[href^='/']");
      if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      go(link.getAttribute("href"));
      scrollTo(0, 0);
    };
    addEventListener("popstate", went);
    addEventListener("went", went);
    addEventListener("click", clicked);
    return () => {
      removeEventListener("popstate", went);
      removeEventListener("went", went);
      removeEventListener("click", clicked);
    };
  }, []);
  return place;
}

function useKeys() {
  useEffect(() => {
    let isGoing = false;
    const pressed = (event) => {
      if (event.target.closest?.("input, textarea, select") || event.metaKey || event.ctrlKey || event.altKey) return;
      if (event.key === "/") {
        event.preventDefault();
        document.getElementById("search").focus();
      } else if (isGoing) {
        const line = RAIL.find((one) => one && one[3] === event.key);
        if (line) go(line[0]);
        isGoing = false;
      } else isGoing = event.key === "g";
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

// What is live

function useLive(isIn) {
  const [live, setLive] = useState({ look: null, history: [], isOpen: false, heard: 0 });
  useStream(isIn ? "/live" : null, ["history", "look"], (kind, told) =>
    setLive((last) => {
      if (kind === "open") return { ...last, isOpen: true };
      if (kind === "broken") return { ...last, isOpen: false };
      if (kind === "history") return { ...last, history: told };
      return { look: told, history: longer(last.history, told), isOpen: true, heard: Date.now() };
    }),
  );
  return live;
}

function longer(points, look) {
  const last = points[points.length - 1];
  if (look.problem || (last && look.at - last.at < POINT)) return points;
  const rates = look.types.map((one) => one.rate).filter((one) => one !== null);
  const waiting = look.types.map((one) => one.waiting);
  const point = {
    at: look.at,
    rate: rates.length ? rates.reduce((sum, one) => sum + one, 0) : null,
    waiting: waiting.includes(null) ? null : waiting.reduce((sum, one) => sum + one, 0),
    running: look.types.reduce((sum, one) => sum + one.running, 0),
    by_type: Object.fromEntries(look.types.map((one) => [one.type, one.waiting])),
  };
  return [...points.slice(-POINTS + 1), point];
}

// The frame

function Search() {
  const [text, setText] = useState("");
  const search = (event) => {
    event.preventDefault();
    const wanted = text.trim();
    if (!wanted) return;
    go(wanted.includes("/") ? `/agents/${wanted.split("/").map(encodeURIComponent).join("/")}` : `/runs?q=${encodeURIComponent(wanted)}`);
    setText("");
  };
  return html`<form class="search" role="search" onSubmit=${search}><${Icon} name="search" />
    <input id="search" type="search" value=${text} onInput=${(event) => setText(event.target.value)}
      placeholder="A run, or type/key of an agent" aria-label="Search for a run, or an agent" /><kbd>/</kbd></form>`;
}

function theme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
}

function Frame({ me, live, place, children }) {
  const asked = live.look?.questions ?? 0;
  const silent = live.heard && Date.now() - live.heard > 12_000;
  const isActive = (path) => (path === "/" ? place.path === "/" : place.path === path || place.path.startsWith(`${path}/`));
  return html`<a class="skip" href="#page">To the page</a>
    <nav class="rail" aria-label="Pages"><a class="brand" href="/"><img src="/static/icon.svg" alt="" width="22" height="22" /> Callboard</a>
      <div class="links">${RAIL.map((line, at) =>
        line === null
          ? html`<hr key=${at} />`
          : html`<a key=${line[0]} href=${line[0]} aria-current=${isActive(line[0]) ? "page" : null}><${Icon} name=${line[2]} />${line[1]}
              ${line[0] === "/inbox" && asked > 0 && html`<span class="badge">${number(asked)}</span>`}</a>`,
      )}</div>
      <p class="who">${me.version} · ${plain(me.server)}<br />as <b>${plain(me.name)}</b>${me.scopes.includes("operate") ? "" : ", reading only"}</p></nav>
    <div class="main"><header class="top"><b>${plain(me.namespace)}</b>
      <span class=${`dot ${live.isOpen && !live.look?.problem ? "" : "off"}`}></span>
      <span class="quiet" aria-live="polite">${live.isOpen && !live.look?.problem ? "live" : "not live"}</span>
      <${Search} /><button class="bare" onClick=${theme} aria-label="Light or dark"><${Icon} name="theme" /></button></header>
    ${(live.look?.problem || silent || (live.heard && !live.isOpen)) ? html`<p class="away" role="status">
      ${live.look?.problem ? plain(live.look.problem) : "The dashboard's own process does not answer"}: what you see is of
      ${" "}${new Date(live.look?.at || live.heard).toLocaleTimeString("en-GB")}</p>` : null}
    <main id="page" tabindex="-1">${children}</main></div>`;
}

function SignIn({ error, take }) {
  const [token, setToken] = useState("");
  return html`<main class="alone"><h1><img src="/static/icon.svg" alt="" width="26" height="26" /> Callboard</h1>
    <p>${error ? plain(error) : "Follow the link that `callboard dashboard` printed, or give the token."}</p>
    <form onSubmit=${(event) => { event.preventDefault(); take(token.trim()); }}>
      <input type="password" autocomplete="current-password" value=${token} aria-label="Token" autofocus
        onInput=${(event) => setToken(event.target.value)} /><button class="primary">Sign in</button></form></main>`;
}

function App() {
  const place = useHere();
  const [me, setMe] = useState({ state: "asking" });
  const live = useLive(me.state === "in");
  const first = useRef(true);
  useKeys();
  const look = () =>
    get("/me").then(
      (told) => setMe({ state: "in", ...told }),
      (error) => setMe({ state: error.status === 401 ? "out" : "broken", error }),
    );
  const take = (token) => signIn(token).then(look, (error) => setMe({ state: "out", error }));
  useEffect(() => {
    const token = new URLSearchParams(location.hash.slice(1)).get("token");
    if (token) history.replaceState(null, "", location.pathname + location.search);
    if (token) take(token);
    else look();
  }, []);
  useEffect(() => {
    if (first.current) first.current = false;
    else document.getElementById("page")?.focus({ preventScroll: true });
  }, [place.path]);
  if (me.state === "asking") return null;
  if (me.state === "out") return html`<${SignIn} error=${me.error?.status === 401 && me.error.message.includes("known") ? me.error.message : null} take=${take} />`;
  if (me.state === "broken") return html`<main class="alone"><${Problem} error=${me.error} again=${look} /></main>`;
  const [page, words] = find(place.path);
  const may = (scope) => me.scopes.includes(scope);
  return html`<${Frame} me=${me} live=${live} place=${place}>
    ${page ? html`<${page} key=${place.path} words=${words} live=${live} may=${may} query=${place.query} me=${me} />`
           : html`<h1>Nothing is here</h1><p><a href="/">Overview</a></p>`}<//>`;
}

function find(path) {
  for (const [pattern, page] of PAGES) {
    const found = pattern.exec(path);
    if (found) return [page, found.slice(1).map(decodeURIComponent)];
  }
  return [null, []];
}

const chosen = localStorage.getItem("theme");
if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
render(html`<${App} />`, document.getElementById("app"));
