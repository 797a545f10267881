// Stored runs: their questions, one answer or two beside each other, and what differs.

import { at, fail, make, read, several, withKey } from "./dom.js";
import { badge, citedOf, paragraphs, restsOn, showEvidence } from "./evidence.js";
import { showSteps } from "./why.js";
import { withoutLead } from "./window.js";

const STATES = { answered: "answered", insufficient: "not enough evidence", failed: "failed" };
const CHANGES = {
  state: "outcome", grade: "best grade", answer: "wording", citations: "cited passages",
  evidence: "passages found", missing: "only in this run",
};
const CHOICES = ["run", "against", "text", "grade", "state", "differs"];
const narrow = matchMedia("(max-width: 960px)");
let turn = 0; // a later choice makes an earlier reply stale

// ---- the runs ----

async function start() {
  try {
    const { runs } = await read("v1/runs");
    const usable = runs.filter((run) => !run.fault);
    fail(runs.length > usable.length
      ? new Error(runs.filter((run) => run.fault).map((run) => `${run.name}: ${run.fault}`).join("; "))
      : null);
    at("choice").hidden = !usable.length;
    if (!usable.length) {
      at("count").textContent = "There is no stored run yet: `srrag answer root=… queries=…` makes one.";
      return;
    }
    const named = usable.map((run) => make("option", { value: run.id }, run.name));
    at("run").replaceChildren(...named);
    at("against").replaceChildren(make("option", { value: "" }, "no other"),
      ...named.map((option) => option.cloneNode(true)));
    restore();
    await list();
  } catch (error) {
    fail(error);
  }
}

// Restores the choices from the page's address, which makes comparisons shareable.
function restore() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const name of CHOICES) {
    if (name === "differs") at(name).checked = given.get(name) === "true";
    else if (given.has(name)) at(name).value = given.get(name);
    if (at(name).localName === "select" && at(name).selectedIndex < 0) at(name).selectedIndex = 0;
  }
}

// Excludes the run itself from the choices for comparison.
function apart() {
  for (const option of at("against").options) {
    option.hidden = option.disabled = option.value === at("run").value;
    if (option.disabled && option.selected) at("against").value = "";
  }
}

function choice() {
  const given = new URLSearchParams();
  for (const name of CHOICES) {
    const value = name === "differs" ? (at(name).checked ? "true" : "") : at(name).value;
    if (value) given.set(name, value);
  }
  return given;
}

// ---- the questions ----

async function list(offset = 0) {
  const own = ++turn;
  apart();
  const given = choice();
  history.replaceState(null, "", `#${given}`);
  at("differing").hidden = !given.has("against");
  const asked = new URLSearchParams(given);
  asked.delete("run");
  if (!given.has("against")) asked.delete("differs");
  asked.set("offset", offset);
  try {
    const found = await read(`v1/runs/${at("run").value}?${asked}`);
    if (own !== turn) return;
    fail(null);
    const entries = found.answers.map(entry);
    at("split").append(at("read")); // out of the list, which is about to be replaced
    if (offset) at("questions").append(...entries);
    else at("questions").replaceChildren(...entries);
    const left = found.total - offset - found.answers.length;
    at("further").hidden = left <= 0;
    at("further").onclick = () => list(offset + found.answers.length);
    at("count").textContent = `${found.total.toLocaleString("en")} of ${several(found.of, "question")}`;
    if (!offset) {
      at("read").hidden = true;
      if (found.answers.length && !narrow.matches) show(found.answers[0], at("questions").querySelector("button"));
    }
  } catch (error) {
    if (own === turn) fail(error);
  }
}

// Answers with the same words are not different, whatever they rest on.
const isDifferent = (row) =>
  (row.changes ?? []).some((change) => ["missing", "state", "answer"].includes(change));

function entry(row) {
  const button = make("button", { type: "button" }, row.question || row.query_id,
    make("span", { className: "facts" }, ...facts(row)));
  button.addEventListener("click", async () => {
    await show(row, button);
    at("asked").focus({ preventScroll: true });
    if (narrow.matches) button.scrollIntoView({ block: "start" });
  });
  return make("li", {}, button);
}

function facts(row) {
  const state = make("span", { className: `state ${row.state}` }, STATES[row.state]);
  const cites = row.citations ? [badge(row.grade), several(row.citations, "citation")] : [];
  const differs = isDifferent(row) ? row.changes.map((change) => CHANGES[change]) : [];
  return [state, ...cites, row.why,
    row.changes?.length && !differs.length ? make("span", {}, "same words, other evidence") : "",
    differs.length ? make("span", { className: "chip other" }, `≠ ${differs.join(", ")}`) : ""].filter(Boolean);
}

// ---- one question ----

async function show(row, button) {
  const own = ++turn;
  const wanted = [at("run").value, at("against").value].filter(Boolean);
  try {
    const sides = await Promise.all(wanted.map((run, n) => n && row.other === undefined && row.changes?.includes("missing")
      ? null : read(`v1/runs/${run}/answer?query_id=${encodeURIComponent(row.query_id)}`)));
    if (own !== turn) return;
    fail(null);
    draw(row, sides.filter(Boolean));
  } catch (error) {
    if (own === turn) fail(error);
    return;
  }
  for (const other of at("questions").querySelectorAll("[aria-current]")) other.removeAttribute("aria-current");
  button.setAttribute("aria-current", "true");
  // Beside the list where there is room, else below its question.
  if (narrow.matches) button.after(at("read"));
  else at("split").append(at("read"));
}

function draw(row, sides) {
  at("read").hidden = false;
  at("asked").textContent = row.question || row.query_id;
  const differs = (row.changes ?? []).map((change) => CHANGES[change]);
  at("changes").textContent = !at("against").value ? `Question ${row.query_id}`
    : differs.length ? `Question ${row.query_id}. The two runs differ in: ${differs.join(", ")}.`
      : `Question ${row.query_id}. The two runs say the same.`;
  if (row.changes?.length && !isDifferent(row)) {
    at("changes").textContent = `Question ${row.query_id}. The same words; they differ in: ${differs.join(", ")}.`;
  }
  at("sides").className = sides.length > 1 ? "two" : "";
  at("sides").replaceChildren(...sides.map((side, n) => drawSide(side, sides[1 - n], "ab"[n])));
}

function drawSide(side, other, name) {
  const node = make("article", { className: "side" }, make("h3", {}, side.run));
  if (side.state === "failed") {
    const { stage, reason, detail } = side.reject;
    node.append(make("p", { className: "reject" }, `Failed in ${stage}: ${reason}. ${detail}`));
    return node;
  }
  const list = make("ol", { className: "cards" });
  const open = showEvidence(list, side, name);
  const said = make("div", { className: `said${side.insufficient ? " insufficient" : ""}` },
    ...paragraphs(side.answer, side.evidence, open));
  node.append(...[restsOn(side), said, side.standing_note && make("p", { className: "standing" }, side.standing_note),
    side.note && make("p", { className: "quiet" }, side.note),
    side.notice && make("p", { className: "quiet" }, side.notice), list, traceOf(side)].filter(Boolean));
  if (other?.sentences) mark(node, said, side, other, name);
  return node;
}

// How one run came to its answer: its steps, and the way to ask it again.
function traceOf(side) {
  const steps = make("ol", { className: "steps" });
  showSteps(steps, side.trace?.steps ?? []);
  return make("details", { className: "trace" }, make("summary", {}, "How this answer was made"), steps,
    make("a", { href: `./?q=${encodeURIComponent(side.question)}` }, "Ask it again"));
}

// Marks sentences that the other run lacks, and names passages that only this run cites.
function mark(node, said, side, other, name) {
  const theirs = new Set(other.sentences.map((each) => withoutLead(each.text)));
  const own = side.sentences.map((each) => withoutLead(each.text)).filter((text) => !theirs.has(text));
  for (const text of [...texts(said)]) markIn(text, own);
  if (own.length) said.after(make("p", { className: "key" },
    make("span", { className: "own" }, "Marked"), ": only in this run."));
  const units = (reply) => new Set(reply.evidence.filter((item) => citedOf(reply).has(item.number))
    .map((item) => item.unit_id));
  const shared = units(other);
  for (const item of side.evidence) {
    if (!citedOf(side).has(item.number) || shared.has(item.unit_id)) continue;
    node.querySelector(`#e${name}${item.number} .facts`)
      .append(make("span", { className: "chip other" }, "cited here only"));
  }
}

function* texts(node) {
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) if (!walker.currentNode.parentElement.closest("button")) yield walker.currentNode;
}

function markIn(node, sentences) {
  for (const sentence of sentences) {
    const start = node.data.indexOf(sentence);
    if (start < 0) continue;
    const found = node.splitText(start);
    const rest = found.splitText(sentence.length);
    const marked = make("span", { className: "own" });
    found.replaceWith(marked);
    marked.append(found);
    markIn(rest, sentences);
    return;
  }
}

// ---- start ----

let typing = 0;
at("choice").addEventListener("submit", (event) => event.preventDefault());
at("choice").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(list, 250);
});
withKey(start);
start();
