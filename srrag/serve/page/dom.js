// Elements, and calls to the server that this page came from. Text is only ever set as text.

const KEY = "srrag-key"; // in the tab's session storage, for this server's pages only

export const at = (id) => document.getElementById(id);

export function make(name, properties = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("aria-") || key === "role" || key === "for") node.setAttribute(key, value);
    else node[key] = value;
  }
  node.append(...children.filter((child) => child !== null && child !== ""));
  return node;
}

export const several = (count, one, many = `${one}s`) =>
  `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

export const short = (text, size) =>
  text.length > size ? `${text.slice(0, size - 1).trimEnd()}…` : text;

// ---- what is on its way ----

let waiting = 0;

// Marks the page as waiting until the promise is settled and what hangs on it is drawn.
export async function during(promise) {
  waiting += 1;
  document.documentElement.dataset.waiting = "";
  try {
    return await promise;
  } finally {
    setTimeout(() => {
      waiting -= 1;
      if (!waiting) delete document.documentElement.dataset.waiting;
    });
  }
}

// A listener that does the work once the reader has stopped typing, if it is not called off before.
export function afterTyping(work) {
  let stop = () => {};
  const listener = () => {
    stop();
    during(new Promise((done) => {
      const timer = setTimeout(() => done(work()), 250);
      stop = () => { clearTimeout(timer); done(); };
    }));
  };
  listener.callOff = () => stop();
  return listener;
}

// ---- the server ----

export async function call(path, { body, signal } = {}) {
  const headers = body ? { "content-type": "application/json" } : {};
  const key = sessionStorage.getItem(KEY);
  if (key) headers.authorization = `Bearer ${key}`;
  const response = await reach(path, {
    method: body ? "POST" : "GET", headers, signal, body: body && JSON.stringify(body),
  });
  if (!response.ok) throw await faultOf(response);
  return response;
}

async function reach(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error(navigator.onLine ? "The server cannot be reached: it may have stopped, or the network between."
      : "You are offline: the server cannot be asked.");
  }
}

export const read = (path, options) =>
  during(call(path, options).then((response) => response.json()));

async function faultOf(response) {
  let message = `The server answered ${response.status}.`;
  try { message = (await response.json()).error.message; } catch { /* not of our server */ }
  if (response.status === 401) askForKey();
  const wait = response.headers.get("retry-after");
  message = message.charAt(0).toUpperCase() + message.slice(1).replace(/\.$/, "");
  return new Error(wait ? `${message}. Try again in ${wait} s.` : `${message}.`);
}

function askForKey() {
  at("keys").hidden = false;
  at("key").focus();
}

// Calls `again` whenever the user enters another key.
export function withKey(again) {
  at("key").addEventListener("change", () => {
    sessionStorage.setItem(KEY, at("key").value);
    again();
  });
}

export function fail(error) {
  at("fault").textContent = error?.message ?? "";
  at("fault").hidden = !error;
}
