// The server's HTTP interface: JSON answers, and what changes, as it happens. Where the server wants a token, the browser has asked for it.

const AT_ONCE = 3; // the server limits what one client may ask at the same time
let running = 0;
const waiting = [];

// An answer draws parts of the page anew. A button that is pressed would be gone, and its click lost, so answers wait until
// it is released. The browser tells of the click right after that.
let released = Promise.resolve();
window.addEventListener("pointerdown", () => {
  released = new Promise((go) => {
    for (const end of ["pointerup", "pointercancel", "blur"]) window.addEventListener(end, () => setTimeout(go), { once: true });
  });
});

export class ServerError extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status; // 0: the server does not answer
  }
}

export function get(path, parameters = []) {
  const query = new URLSearchParams(parameters).toString();
  return inTurn(() => ask(`/api/v1/${path}${query ? `?${query}` : ""}`));
}

export function post(path, body) {
  return inTurn(() => ask(`/api/v1/${path}`, { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } }));
}

async function ask(address, options = {}, again = true) {
  let response;
  try {
    response = await fetch(address, { cache: "no-cache", ...options });
  } catch {
    throw new ServerError(0, "the server does not answer");
  }
  if (response.status === 429 && again) {
    const seconds = Math.min(Number(response.headers.get("retry-after")) || 1, 10);
    await new Promise((done) => setTimeout(done, seconds * 1000));
    return ask(address, options, false);
  }
  const told = await response.json().catch(() => ({}));
  await released;
  if (!response.ok) throw new ServerError(response.status, told.error ?? `HTTP status ${response.status}`);
  return told;
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

// Calls `hour(data)` for each hour that changed, `token(data)` for each new snapshot, `connected(true|false)` as the connection comes and goes.
export function listen({ hour, token, connected }) {
  const stream = new EventSource("/api/v1/changes"); // it tries again by itself, from where it was
  stream.addEventListener("open", () => connected(true));
  stream.addEventListener("hour", (event) => hour(JSON.parse(event.data)));
  stream.addEventListener("token", (event) => token(JSON.parse(event.data)));
  stream.addEventListener("error", () => {
    connected(false);
    if (stream.readyState === EventSource.CLOSED) setTimeout(() => listen({ hour, token, connected }), 2000); // refused: it would not try again
  });
}
