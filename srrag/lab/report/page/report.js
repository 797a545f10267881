// Sorts the tables, and unpacks a question when it is opened. Text is only ever set as text.
"use strict";

const PAGE = 50;
const NONE = "–";
const LISTS = JSON.parse(document.getElementById("lists").textContent);

function make(name, text = "", kind = "") {
  const node = document.createElement(name);
  if (text !== "") node.textContent = text;
  if (kind) node.className = kind;
  return node;
}

function number(value, signed = false) {
  if (value === null || value === undefined) return NONE;
  const text = Math.abs(value).toFixed(3);
  const zero = Number(text) === 0;
  return (value < 0 && !zero ? "−" : signed && !zero ? "+" : "") + text;
}

// ---- sorting ----

function key(row, column) {
  const cell = row.cells[column];
  if (cell === undefined || cell.colSpan > 1) return null;
  if (!("sort" in cell.dataset)) return cell.textContent.trim().toLowerCase();
  return cell.dataset.sort === "" ? null : Number(cell.dataset.sort);
}

function sort(button) {
  const head = button.closest("th");
  const falls = head.ariaSort !== "descending";
  const body = head.closest("table").tBodies[0];
  for (const other of head.parentNode.cells) if (other.ariaSort) other.ariaSort = "none";
  head.ariaSort = falls ? "descending" : "ascending";
  const rows = [...body.rows].map((row) => [key(row, head.cellIndex), row]);
  rows.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);
    const order = a < b ? -1 : a > b ? 1 : 0;
    return falls ? -order : order;
  });
  body.append(...rows.map(([, row]) => row));
}

for (const button of document.querySelectorAll("button.sort")) {
  button.addEventListener("click", () => sort(button));
}

// ---- lists of questions ----

for (const part of document.querySelectorAll("details.questions")) {
  part.addEventListener("toggle", () => {
    const list = part.querySelector(".list");
    if (part.open && !list.firstChild) extend(list, LISTS[part.dataset.list], 0);
  });
}

function extend(list, entries, from) {
  for (const entry of entries.slice(from, from + PAGE)) list.append(question(entry));
  if (from + PAGE >= entries.length) return;
  const more = make("button", `${entries.length - from - PAGE} more`, "more");
  more.type = "button";
  const item = make("li");
  item.append(more);
  more.addEventListener("click", () => { item.remove(); extend(list, entries, from + PAGE); });
  list.append(item);
}

function question(entry) {
  const item = make("li"), fold = make("details"), summary = make("summary");
  const text = make("span", "", "text");
  text.append(make("span", entry.id, "id"), entry.text);
  if (entry.state) text.append(make("span", entry.state, "state"));
  const score = make("span", number(entry.value), "score");
  if (entry.baseline !== null && entry.value !== null) {
    score.append(make("small", ` (${number(entry.value - entry.baseline, true)})`));
  }
  summary.append(text, score);
  fold.append(summary);
  fold.addEventListener("toggle", async () => {
    if (!fold.open || fold.querySelector(".body")) return;
    const body = make("div", "", "body");
    fold.append(body);
    body.append(...told(await unpack(entry.packed), body));
  });
  item.append(fold);
  return item;
}

async function unpack(place) {
  const packed = atob(document.getElementById(`p${place}`).textContent);
  const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return JSON.parse(await new Response(stream).text());
}

// ---- one question ----

function told(detail, body) {
  const nodes = [];
  const titled = (title, ...content) => nodes.push(make("h4", title), ...content);
  titled("Question", make("p", detail.text), strata(detail.strata));
  if (detail.reject) nodes.push(make("p", fault(detail.reject), "fault"));
  if (detail.answer) titled({ not: "Abstained", partly: "Answer in part" }[detail.state] ?? "Answer", ...answer(detail, body));
  if (detail.reference) titled("Reference", make("p", detail.reference));
  if (detail.nuggets.length) titled("Statements expected", listed(detail.nuggets));
  if (!detail.kept) nodes.push(make("p", "What the system made of this question was not kept.", "quiet"));
  if (detail.evidence?.length) {
    titled(detail.ranking ? "Ranked first" : "Evidence", evidence(detail));
  }
  if (detail.judged.length) {
    const rows = detail.judged.map((j) => [j.metric.replaceAll("_", " "), number(j.value), j.item, j.reason]);
    titled("Judgements", grid(["metric", "verdict", "of", "reason"], rows));
  }
  const values = detail.values.map(([name, ours, theirs, reason]) =>
    [name.replaceAll("_", " "), number(ours), number(theirs), reason]);
  if (values.length) titled("Values", grid(["metric", "value", "baseline", ""], values));
  if (detail.trace) nodes.push(...trace(detail));
  return nodes;
}

function strata(kinds) {
  return make("p", Object.entries(kinds).map(([kind, name]) => `${kind}: ${name}`).join(" · "), "quiet");
}

function fault(reject) {
  return `Failed in ${reject.stage}: ${reject.reason}${reject.detail ? ` (${reject.detail})` : ""}`;
}

function listed(texts) {
  const list = make("ul");
  list.append(...texts.map((text) => make("li", text)));
  return list;
}

function answer(detail, body) {
  const nodes = detail.answer.split("\n\n").map((text) => paragraph(text, body));
  if (detail.verdict) nodes.unshift(make("p", `Verdict: ${detail.verdict}`));
  if (detail.option) nodes.unshift(make("p", `Chosen: ${detail.option}`));
  if (detail.missing) nodes.push(make("p", `Missing: ${detail.missing}`, "quiet"));
  for (const note of detail.notes) nodes.push(make("p", note.text, note.kind === "publication" ? "fault" : "quiet"));
  if (detail.findings.length) {
    nodes.push(make("h4", "Findings"), listed(detail.findings.map((each) =>
      `${each.kind}: ${each.text}${each.number ? ` [${each.number}]` : ""}`)));
  }
  if (detail.model) nodes.push(make("p", `Written by: ${detail.model}`, "quiet"));
  return nodes;
}

function paragraph(text, body) {
  const node = make("p");
  for (const piece of text.split(/(\[\d+\])/)) {
    const found = /^\[(\d+)\]$/.exec(piece);
    if (!found) { node.append(piece); continue; }
    const button = make("button", piece, "cite");
    button.type = "button";
    button.setAttribute("aria-label", `Evidence ${found[1]}`);
    button.addEventListener("click", () => {
      const card = body.querySelector(`.evidence details[data-number="${found[1]}"]`);
      if (!card) return;
      card.open = true;
      card.querySelector("summary").focus();
      card.scrollIntoView({ block: "nearest" });
    });
    node.append(button);
  }
  return node;
}

function badge(grade) {
  return make("span", grade || NONE, `grade${grade && grade <= "B" ? " strong" : ""}`);
}

function evidence(detail) {
  const cited = new Set(detail.sentences.flatMap((sentence) => sentence.citations));
  const list = make("ol", "", "evidence");
  for (const item of detail.evidence) {
    const entry = make("li"), card = make("details"), summary = make("summary");
    card.dataset.number = item.number;
    if (cited.has(item.number)) card.className = "cited";
    const meta = make("span", "", "meta");
    if (item.relevant) meta.append(make("span", "relevant", "found"), " · ");
    if (cited.has(item.number)) meta.append(make("span", "cited", "found"), " · ");
    meta.append([item.study, item.section, item.year || "", ""].filter((part, n) => part || n === 3).join(" · "), source(item));
    summary.append(make("span", item.number, "number"), badge(item.grade), ...standing(item), make("span", item.title || item.source_id || item.unit_id), meta);
    const window_ = make("div", "", "window");
    window_.append(quoted(item.text, item.quotes));
    card.append(summary, window_);
    entry.append(card);
    list.append(entry);
  }
  return list;
}

function standing(item) {
  return item.standing && item.standing !== "ok"
    ? [make("span", item.standing.replaceAll("_", " "), "fault")] : [];
}

function source(item) {
  if (!/^\d+$/.test(item.pmid)) return make("span", item.source_id, "id");
  const link = make("a", `PMID ${item.pmid}`);
  link.href = `https://pubmed.ncbi.nlm.nih.gov/${item.pmid}/`;
  link.rel = "noopener noreferrer";
  return link;
}

// Spans count characters, not UTF-16 units.
function quoted(text, quotes) {
  const letters = [...text], node = make("p");
  let at = 0;
  for (const { char_start: start, char_end: end } of [...quotes].sort((a, b) => a.char_start - b.char_start)) {
    if (start < at) continue;
    node.append(letters.slice(at, start).join(""), make("mark", letters.slice(start, end).join("")));
    at = end;
  }
  node.append(letters.slice(at).join(""));
  return node;
}

// ---- how it came about ----

function trace(detail) {
  const { trace: steps, why } = detail;
  const { rounds = [], anchors = {}, subquestions = [] } = detail.expansion;
  const nodes = [], body = make("details");
  body.append(make("summary", "How it came about"));
  if (steps.length) body.append(stepped(steps));
  const named = Object.entries(anchors).filter(([, words]) => words.length);
  if (named.length) body.append(make("p", named.map(([part, words]) => `${part}: ${words.join(", ")}`).join(" · ")));
  if (subquestions.length) body.append(listed(subquestions.map((each) => `${each.kind}: ${each.text}`)));
  for (const each of rounds) {
    body.append(make("p", `Round ${each.round}: ${each.question} (${each.new_windows} new windows)${each.reflection ? ` → ${each.reflection}` : ""}`));
    if (each.steps.length) body.append(stepped(each.steps));
  }
  if (why.length) {
    const rows = why.map((each, n) => [String(n + 1), searches(each.found), ranks(each.ranked)]);
    body.append(grid(["", "found by", "ranked"], rows));
  }
  if (body.children.length > 1) nodes.push(body);
  return nodes;
}

function stepped(steps) {
  return grid(["step", "ms", "in", "out", "items"], steps.map((step) =>
    [step.step, step.ms.toFixed(1), String(step.rows_in), String(step.rows_out), String(step.items ?? "")]));
}

function searches(found) {
  return found.map((f) => `${f.channel} on ${f.track} #${f.rank}${f.round > 1 ? ` in round ${f.round}` : ""}`).join(", ") || NONE;
}

function ranks(ranked) {
  return Object.entries(ranked).map(([name, at]) =>
    `${name === "hits" ? "final" : name.replace("hits_", "")} #${at.rank} (${number(at.score)})`).join(" → ") || NONE;
}

function grid(heads, rows) {
  const frame = make("div", "", "wide"), table = make("table"), head = table.createTHead().insertRow();
  frame.tabIndex = 0;
  frame.setAttribute("role", "region");
  frame.setAttribute("aria-label", heads.filter(Boolean).join(", "));
  for (const text of heads) {
    const cell = make("th", text);
    cell.scope = "col";
    head.append(cell);
  }
  const body = table.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    for (const text of row) line.append(make("td", text, /^[−+]?[\d.]+$|^–$/.test(text) ? "figure" : ""));
  }
  frame.append(table);
  return frame;
}

// Printed, everything but the questions is open.
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details.part:not(.questions)")) part.open = true;
});
