// The server's HTTP interface: JSON answers, and its changes as they happen.

const AT_ONCE = 3; // the server limits what one client may ask at the same time
const PATIENCE_MS = 30_000; // without a change or a heartbeat, the connection counts as dead
let running = 0;
const waiting = [];

export class ServerError extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status; // 0: the server does not answer
  }
}

export function keepToken(token) {
  sessionStorage.setItem("hourline.token", token);
}

export async function get(path, parameters = []) {
  const query = new URLSearchParams(parameters).toString();
  const response = await inTurn(() => ask(`/api/v1/${path}${query ? `?${query}` : ""}`));
  return response.json();
}

export async function post(path, body) {
  const response = await inTurn(() => ask(`/api/v1/${path}`, { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } }));
  return response.json();
}

// A page of the audit's reports in a tab of its own. Where a token is wanted, a plain link cannot carry it.
export const hasToken = () => sessionStorage.getItem("hourline.token") !== null;

async function ask(address, options = {}) {
  const token = sessionStorage.getItem("hourline.token");
  const headers = { accept: "application/json", ...options.headers, ...(token ? { authorization: `Bearer ${token}` } : {}) };
  let response;
  try {
    response = await fetch(address, { cache: "no-cache", ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(0, "the server does not answer");
  }
  if (response.status === 429 && !options.again) {
    const seconds = Math.min(Number(response.headers.get("retry-after")) || 1, 10);
    await new Promise((done) => setTimeout(done, seconds * 1000));
    return ask(address, { ...options, again: true });
  }
  if (!response.ok) {
    const told = await response.json().catch(() => ({}));
    throw new ServerError(response.status, told.error ?? `HTTP status ${response.status}`);
  }
  return response;
}

async function inTurn(work) {
  if (running >= AT_ONCE) await new Promise((go) => waiting.push(go));
  running += 1;
  try {
    return await work();
  } finally {
    running -= 1;
    waiting.shift()?.();
  }
}

// Calls `heard(event, data)` for each change, and `connected(true|false)` as the connection comes and goes; tries again for ever.
// Not by EventSource, which cannot send a token.
export async function listen(heard, connected) {
  let last = null;
  for (let pause = 500; ; pause = Math.min(pause * 2, 8000)) {
    try {
      await read(last, async (event) => {
        last = event.id ?? last;
        if (event.data) heard(event.event, JSON.parse(event.data));
      }, () => {
        pause = 250;
        connected(true);
      });
    } catch (error) {
      if (error.status === 401 || error.status === 403) throw error;
    }
    connected(false);
    await new Promise((done) => setTimeout(done, pause));
  }
}

async function read(last, heard, opened) {
  const control = new AbortController();
  let dead = setTimeout(() => control.abort(), PATIENCE_MS);
  try {
    const response = await ask("/api/v1/changes", { signal: control.signal, headers: { accept: "text/event-stream", ...(last ? { "last-event-id": last } : {}) } });
    opened();
    let text = "";
    for (const reader = response.body.pipeThrough(new TextDecoderStream()).getReader(); ; ) {
      const { value, done } = await reader.read();
      if (done) return;
      clearTimeout(dead);
      dead = setTimeout(() => control.abort(), PATIENCE_MS);
      const parts = (text + value.replaceAll("\r\n", "\n")).split("\n\n");
      text = parts.pop();
      for (const block of parts) {
        const event = {};
        for (const line of block.split("\n")) {
          const [, field, content] = /^([a-z]+): ?(.*)$/.exec(line) ?? [];
          if (field) event[field] = field === "data" && event.data ? `${event.data}\n${content}` : content;
        }
        await heard(event);
      }
    }
  } finally {
    clearTimeout(dead);
  }
}
