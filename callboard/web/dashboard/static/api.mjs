// What the pages ask the server for, and how they hear of what happens.
import { useEffect, useRef, useState } from "./vendor/hooks.mjs";

const API = "/api/v1";

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

async function answered(response) {
  const text = await response.text();
  let told = null;
  try {
    told = JSON.parse(text);
  } catch {
    // An answer of something between: its status says enough.
  }
  if (!response.ok) throw new Refused(response.status, told?.detail ?? `the answer was ${response.status}`);
  return told;
}

export const get = (path) => fetch(API + path, { headers: { accept: "application/json" } }).then(answered);

export const post = (path, body) =>
  fetch(API + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: body === undefined ? null : JSON.stringify(body),
  }).then(answered);

export const signIn = (token) =>
  fetch("/sign-in", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ token }),
  }).then(answered);

// What is at an address: {data, error, again}. It is asked for anew when the address or one of `when` changes; what was
// there before stays until the answer comes.
export function useGet(path, when = []) {
  const [found, setFound] = useState({ data: null, error: null, path: null });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (path === null) return undefined;
    let isWanted = true;
    get(path).then(
      (data) => isWanted && setFound({ data, error: null, path }),
      (error) => isWanted && setFound((last) => ({ data: last.path === path ? last.data : null, error, path })),
    );
    return () => {
      isWanted = false;
    };
  }, [path, turn, ...when]);
  const isOld = found.path !== path;
  return { data: isOld ? null : found.data, error: isOld ? null : found.error, again: () => setTurn((one) => one + 1) };
}

// A stream of events, closed while the page is hidden for long: a browser has six connections for all of its tabs.
export function useStream(path, kinds, take) {
  const latest = useRef(take);
  latest.current = take;
  useEffect(() => {
    if (path === null) return undefined;
    let source = null;
    let last = "";
    let closing = 0;
    const open = () => {
      const after = last ? `${path.includes("?") ? "&" : "?"}after=${last}` : "";
      source = new EventSource(API + path + after);
      const heard = (event) => {
        if (event.data === undefined) return; // of the connection, which has an event "error" as well
        last = event.lastEventId || last;
        latest.current(event.type, JSON.parse(event.data));
      };
      for (const kind of kinds) source.addEventListener(kind, heard);
      source.onerror = () => latest.current("broken", source.readyState);
      source.onopen = () => latest.current("open", null);
    };
    const hidden = () => {
      clearTimeout(closing);
      if (document.hidden) closing = setTimeout(() => source.close(), 10_000);
      else if (source.readyState === EventSource.CLOSED) open();
    };
    // A browser keeps a page that was left, with its connections: after six of them none is free for the next page.
    const left = () => source.close();
    open();
    document.addEventListener("visibilitychange", hidden);
    addEventListener("pagehide", left);
    addEventListener("pageshow", hidden);
    return () => {
      clearTimeout(closing);
      document.removeEventListener("visibilitychange", hidden);
      removeEventListener("pagehide", left);
      removeEventListener("pageshow", hidden);
      source.close();
    };
  }, [path]);
}
