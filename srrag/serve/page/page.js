// Asks the server that this page came from and shows what it says. Text is only ever set as text.
"use strict";

const EXAMPLES = [
  "How long may an acute lateral ankle sprain be immobilised in a cast?",
  "Does bed rest help acute low back pain?",
  "When can athletes return to sport after anterior cruciate ligament reconstruction?",
];
const PARTS = { P: "people", I: "intervention" };
const at = (id) => document.getElementById(id);
let asking = null;

function make(name, text = "", kind = "") {
  const node = document.createElement(name);
  if (text) node.textContent = text;
  if (kind) node.className = kind;
  return node;
}

function headers() {
  const given = { "content-type": "application/json" };
  if (at("key").value) given.authorization = `Bearer ${at("key").value}`;
  return given;
}

// ---- asking ----

async function ask(event) {
  event.preventDefault();
  asking?.abort();
  const own = (asking = new AbortController());
  clear();
  try {
    const body = { question: at("question").value, options: { trace: true } };
    if (at("pipeline").value) body.pipeline = at("pipeline").value;
    const response = await fetch("v1/answers/stream", {
      method: "POST", headers: headers(), body: JSON.stringify(body), signal: own.signal,
    });
    if (!response.ok) throw await faultOf(response);
    let last = "";
    for await (const [name, data] of events(response)) {
      last = name;
      if (own === asking) hear(name, data);
    }
    if (last !== "final" && last !== "error") throw new Error("The answer broke off.");
  } catch (error) {
    if (own === asking) fail(error.message);
  } finally {
    if (own === asking) at("progress").textContent = "";
  }
}

async function faultOf(response) {
  let message = `The server answered ${response.status}.`;
  try { message = (await response.json()).error.message; } catch { /* not of our server */ }
  if (response.status === 401) { at("keys").hidden = false; at("key").focus(); }
  const wait = response.headers.get("retry-after");
  return new Error(wait ? `${message} (in ${wait} s)` : message);
}

async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (text += value).split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const [name, data] = block.split("\n");
      if (name.startsWith("event: ")) yield [name.slice(7), JSON.parse(data.slice(6))];
    }
  }
}

function hear(name, data) {
  if (name === "stage") at("progress").textContent = `${data.step} … ${data.ms} ms`;
  if (name === "token") draft(data.text);
  if (name === "evidence") { at("result").hidden = false; showEvidence(data.evidence, new Set()); }
  if (name === "final") show(data);
  if (name === "error") fail(data.error.message);
}

// ---- showing ----

function clear() {
  for (const id of ["answer", "evidence", "found", "steps"]) at(id).replaceChildren();
  for (const id of ["fault", "notice", "note", "result"]) at(id).hidden = true;
  at("by").textContent = "";
  at("progress").textContent = "Asking …";
}

function fail(message) {
  at("fault").textContent = message;
  at("fault").hidden = false;
}

function draft(text) {
  at("answer").className = "draft";
  if (!at("answer").firstChild) at("answer").append(make("p"));
  at("answer").firstChild.textContent += text;
}

function show(reply) {
  const cited = new Set(reply.sentences.flatMap((sentence) => sentence.citations));
  at("result").hidden = false;
  at("answer").className = reply.insufficient ? "insufficient" : "";
  at("answer").replaceChildren(...reply.answer.split("\n\n").map(paragraph));
  at("notice").textContent = reply.notice;
  at("notice").hidden = !reply.notice;
  at("note").textContent = reply.note;
  at("note").hidden = !reply.note;
  at("found-title").textContent = reply.insufficient ? "Passages found" : "Evidence";
  at("by").textContent =
    `Written by: ${reply.model}. Pipeline ${reply.pipeline}, build ${reply.version}.`;
  showEvidence(reply.evidence, cited, reply.sentences);
  showWhy(reply);
}

function paragraph(text) {
  const node = make("p");
  for (const piece of text.split(/(\[\d+\])/)) {
    const number = /^\[(\d+)\]$/.exec(piece)?.[1];
    node.append(number ? citation(number) : piece);
  }
  return node;
}

function citation(number) {
  const button = make("button", `[${number}]`, "cite");
  button.type = "button";
  button.setAttribute("aria-label", `Evidence ${number}`);
  button.addEventListener("click", () => {
    const card = at(`e${number}`);
    if (!card) return;
    card.open = true;
    card.querySelector("summary").focus();
    card.scrollIntoView({ block: "nearest" });
  });
  return button;
}

function showEvidence(items, cited, sentences = []) {
  at("evidence").replaceChildren(...items.map((item) => {
    const entry = make("li");
    entry.append(card(item, cited.has(item.number), sentences));
    return entry;
  }));
}

function card(item, cited, sentences) {
  const node = make("details", "", cited ? "cited" : "");
  node.id = `e${item.number}`;
  const summary = make("summary");
  const grade = make("span", item.grade || "–", `grade ${item.grade}`);
  grade.setAttribute("aria-label", item.grade ? `grade ${item.grade}` : "no grade");
  const meta = [item.study, item.year || "", item.source_id].filter(Boolean).join(" · ");
  summary.append(
    make("span", String(item.number), "number"), grade,
    make("span", item.title, "title"), make("span", meta, "meta"),
  );
  node.append(summary, opened(item, sentences));
  return node;
}

function opened(item, sentences) {
  const node = make("div", "", "window");
  for (const each of item.mismatches ?? []) {
    const asked = each.asked ? `asked: ${each.asked}; here: ` : "here: ";
    node.append(make("p", `Other ${PARTS[each.part] ?? each.part}: ${asked}${each.found}`, "mismatch"));
  }
  const said = sentences.filter((s) => s.citations.includes(item.number)).map((s) => s.text);
  node.append(marked(item.text, spans(item, said)));
  if (/^\d+$/.test(item.pmid)) {
    const link = make("a", `PMID ${item.pmid}`);
    link.href = `https://pubmed.ncbi.nlm.nih.gov/${item.pmid}/`;
    link.rel = "noopener noreferrer";
    link.target = "_blank";
    node.append(link);
  }
  return node;
}

// Quotes by their place in the text (which counts characters, not UTF-16 units), and sentences of
// the answer that stand in it word for word.
function spans(item, said) {
  const units = (count) => [...item.text].slice(0, count).join("").length;
  const found = (item.quotes ?? []).map((q) => [units(q.char_start), units(q.char_end)]);
  for (const text of said) {
    const start = item.text.indexOf(text);
    if (start >= 0) found.push([start, start + text.length]);
  }
  return found.sort((a, b) => a[0] - b[0]);
}

function marked(text, found) {
  const node = make("p");
  let done = 0;
  for (const [start, end] of found) {
    if (start < done) continue;
    node.append(text.slice(done, start), make("mark", text.slice(start, end)));
    done = end;
  }
  node.append(text.slice(done));
  return node;
}

function showWhy(reply) {
  const rows = (reply.why ?? []).map((item, place) => [
    String(place + 1),
    item.found.map((f) => `${f.channel} on ${f.track} #${f.rank}`).join(", "),
    Object.entries(item.ranked).map(([list, r]) => `${list.replace(/^hits_?/, "") || "final"} #${r.rank}`)
      .join(" → "),
  ]);
  table(at("found"), ["Evidence", "Found by", "Ranks"], rows);
  table(at("steps"), ["Step", "ms", "Items"],
    reply.trace.map((step) => [step.step, step.ms.toFixed(1), String(step.items ?? "")]));
}

function table(node, names, rows) {
  const filled = rows[0]?.map((_, n) => rows.some((row) => row[n])) ?? [];
  const figures = names.map((_, n) => n > 0 && rows.every((row) => /^[\d.]*$/.test(row[n])));
  const line = (cells, kind) => {
    const row = make("tr");
    cells.forEach((cell, n) => {
      if (filled[n]) row.append(make(kind, cell, figures[n] ? "figure" : ""));
    });
    return row;
  };
  node.replaceChildren(line(names, "th"), ...rows.map((row) => line(row, "td")));
}

// ---- start ----

async function start() {
  at("examples").append(...EXAMPLES.map((text) => {
    const button = make("button", text);
    button.type = "button";
    button.addEventListener("click", () => { at("question").value = text; at("ask").requestSubmit(); });
    return button;
  }));
  at("ask").addEventListener("submit", ask);
  at("question").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) at("ask").requestSubmit();
  });
  at("key").addEventListener("change", models);
  await models();
}

async function models() {
  const response = await fetch("v1/models", { headers: headers() });
  if (response.status === 401) at("keys").hidden = false;
  if (!response.ok) return;
  const { data } = await response.json();
  const names = data.filter((item) => !item.alias_of).map((item) => item.id);
  at("pipeline").replaceChildren(...names.map((name) => make("option", name)));
  at("pipelines").hidden = names.length < 2;
}

start();
