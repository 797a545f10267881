// Stored runs: their questions, up to eight answers beside each other, and what differs.

import { afterTyping, at, fail, make, read, several, withKey } from "./dom.js";
import { badge, citedOf, paragraphs, restsOn, showEvidence } from "./evidence.js";
import { showSteps } from "./why.js";
import { withoutLead } from "./window.js";

const STATES = { answered: "answered", partly: "answered in part", not: "not enough evidence", failed: "failed" };
const CHANGES = {
  state: "outcome", grade: "best grade", answer: "wording", citations: "cited passages",
  evidence: "passages found", missing: "not in every run",
};
const CHOICES = ["run", "text", "grade", "state", "order", "differs"];
const MOST = 7; // runs beside the first, as the server takes them
const narrow = matchMedia("(max-width: 960px)");
let wanted = {}; // the question that the address names, and whether its steps stand open
let reading = ""; // the question that is shown
let entering = false; // whether the reader is on the way into it, or was in it
let listing = 0; // a later list makes an earlier one's reply stale
let showing = 0; // and so a later question an earlier one's answers

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
    for (const box of boxes()) box.parentElement.remove(); // of a start with another key
    at("against").append(...usable.map((run) => make("label", {},
      make("input", { type: "checkbox", value: run.id }), ` ${run.name}`)));
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
  for (const box of boxes()) box.checked = given.getAll("against").includes(box.value);
  wanted = { question: given.get("question"), steps: given.has("steps") };
}

const boxes = () => [...at("against").querySelectorAll("input")];
const beside = () => boxes().filter((box) => box.checked).map((box) => box.value);

// A run is not compared with itself, nor with more than the server takes.
function apart() {
  for (const box of boxes()) {
    const own = box.value === at("run").value;
    if (own) box.checked = false;
    box.parentElement.hidden = own;
  }
  const full = beside().length >= MOST;
  for (const box of boxes()) box.disabled = full && !box.checked;
  const count = beside().length;
  at("beside-told").textContent = count ? `Beside ${several(count, "other run")}` : "Compare with …";
}

function choice() {
  const given = new URLSearchParams();
  for (const name of CHOICES) {
    const value = name === "differs" ? (at(name).checked ? "true" : "") : at(name).value;
    if (value) given.set(name, value);
  }
  for (const run of beside()) given.append("against", run);
  return given;
}

// ---- the questions ----

async function list(offset = 0) {
  const own = ++listing;
  relist.callOff();
  apart();
  const given = choice();
  if (!wanted.question) history.replaceState(null, "", `#${given}`);
  at("differing").hidden = at("ordering").hidden = !given.has("against");
  const asked = new URLSearchParams(given);
  asked.delete("run");
  if (!given.has("against")) for (const name of ["differs", "order"]) asked.delete(name);
  asked.set("offset", offset);
  try {
    const found = await read(`v1/runs/${at("run").value}?${asked}`);
    if (own !== listing) return;
    fail(null);
    const entries = found.answers.map(entry);
    if (offset) {
      at("questions").append(...entries);
    } else {
      showing += 1; // what is on its way was asked by a button that goes now
      entering ||= at("read").contains(document.activeElement);
      at("split").append(at("read")); // out of the list
      at("questions").replaceChildren(...entries);
    }
    const left = found.total - offset - found.answers.length;
    at("further").hidden = left <= 0;
    at("further").onclick = () => list(offset + found.answers.length);
    at("count").textContent = `${found.total.toLocaleString("en")} of ${several(found.of, "question")}`;
    if (!offset) {
      at("read").hidden = true;
      // What the address names or the reader reads stays, where it is still listed.
      const named = found.answers.findIndex((row) => row.query_id === (wanted.question ?? reading));
      const place = Math.max(0, named);
      const button = at("questions").querySelectorAll("button")[place];
      entering &&= named >= 0;
      if (button && (named >= 0 || !narrow.matches)) show(found.answers[place], button);
    }
  } catch (error) {
    if (own === listing) fail(error);
  }
}

// Answers with the same words are not different, whatever they rest on.
const isDifferent = (row) =>
  (row.changes ?? []).some((change) => ["missing", "state", "answer"].includes(change));

function entry(row) {
  const button = make("button", { type: "button" }, row.question || row.query_id,
    make("span", { className: "facts" }, ...facts(row)));
  button.addEventListener("click", () => {
    wanted = {};
    entering = true;
    show(row, button);
  });
  return make("li", {}, button);
}

function facts(row) {
  const state = make("span", { className: `state ${row.state}` }, STATES[row.state]);
  const cites = row.citations ? [badge(row.grade), several(row.citations, "citation")] : [];
  const differs = isDifferent(row) ? row.changes.map((change) => CHANGES[change]) : [];
  return [state, ...cites, row.why,
    row.changes?.length && !differs.length ? make("span", {}, "same words, other evidence") : "",
    differs.length ? make("span", { className: "chip other" }, row.answers > 1 && row.others.length > 1
      ? `≠ ${row.answers} answers of ${row.others.filter(Boolean).length + 1} runs` : `≠ ${differs.join(", ")}`) : ""].filter(Boolean);
}

// ---- one question ----

async function show(row, button) {
  const own = ++showing;
  reading = row.query_id;
  const runs = [at("run").value, ...beside()];
  try {
    const sides = await Promise.all(runs.map((run, n) => n && row.others && !row.others[n - 1]
      ? null : read(`v1/runs/${run}/answer?query_id=${encodeURIComponent(row.query_id)}`)));
    if (own !== showing) return;
    fail(null);
    draw(row, sides.filter(Boolean), wanted.steps);
    wanted = {};
  } catch (error) {
    if (own === showing) fail(error);
    return;
  }
  for (const other of at("questions").querySelectorAll("[aria-current]")) other.removeAttribute("aria-current");
  button.setAttribute("aria-current", "true");
  // Beside the list where there is room, else below its question.
  if (narrow.matches) button.after(at("read"));
  else at("split").append(at("read"));
  if (!entering) return;
  entering = false;
  at("asked").focus({ preventScroll: true });
  if (narrow.matches) button.scrollIntoView({ block: "start" });
}

function draw(row, sides, steps) {
  at("read").hidden = false;
  at("asked").textContent = row.question || row.query_id;
  const differs = (row.changes ?? []).map((change) => CHANGES[change]);
  const runs = sides.length > 2 ? `The ${sides.length} runs` : "The two runs";
  at("changes").textContent = `Question ${row.query_id}. ${!beside().length ? ""
    : !differs.length ? `${runs} say the same.`
      : isDifferent(row) ? `${runs} differ in: ${differs.join(", ")}.`
        : `The same words; they differ in: ${differs.join(", ")}.`}`;
  at("sides").className = sides.length > 2 ? "many" : sides.length > 1 ? "two" : "";
  document.body.classList.toggle("wide", sides.length > 2);
  at("sides").replaceChildren(...sides.map((side, n) =>
    drawSide(row, side, sides.filter((other) => other !== side), "abcdefgh"[n], steps)));
}

function drawSide(row, side, others, name, steps) {
  const node = make("article", { className: "side" }, make("h3", {}, side.run));
  if (side.state === "failed") {
    const { stage, reason, detail } = side.reject;
    node.append(make("p", { className: "reject" }, `Failed in ${stage}: ${reason}. ${detail}`));
    return node;
  }
  const list = make("ol", { className: "cards" });
  const open = showEvidence(list, side, name);
  const said = make("div", { className: `said ${side.state}` },
    ...paragraphs(side.answer, side.evidence, (number, asker) => { list.closest("details")?.setAttribute("open", ""); open(number, asker); }));
  const papers = others.length > 1
    ? make("details", { className: "papers" }, make("summary", {}, several(side.evidence.length, "passage")), list) : list;
  const line = (text, className = "quiet") => text && make("p", { className }, text);
  node.append(...[restsOn(side), line(side.verdict && `Verdict: ${side.verdict}`), line(side.option && `Chosen: ${side.option}`), said,
    line(side.missing && `Missing: ${side.missing}`),
    ...side.notes.map((each) => line(each.text, each.kind === "publication" ? "standing" : "quiet")),
    ...side.findings.map((each) => line(`${each.kind}: ${each.text}${each.number ? ` [${each.number}]` : ""}`)),
    papers, traceOf(row, side, steps)].filter(Boolean));
  if (others.some((other) => other.sentences)) mark(node, said, side, others.filter((other) => other.sentences), name);
  return node;
}

// How one run came to its answer: its steps, a link to them, and the way to ask it again.
function traceOf(row, side, open) {
  const steps = make("ol", { className: "steps" });
  showSteps(steps, side.trace);
  const place = choice();
  place.set("question", row.query_id);
  place.set("steps", "open");
  return make("details", { className: "trace", open: Boolean(open) }, make("summary", {}, "How this answer was made"), steps,
    make("p", { className: "onward" }, make("a", { href: `runs#${place}`, className: "permanent" }, "Link to this trace"), " ",
      make("a", { href: `./?q=${encodeURIComponent(side.question)}` }, "Ask it again")));
}

// Marks sentences that the other runs lack, and names passages that only this run cites.
function mark(node, said, side, others, name) {
  const theirs = new Set(others.flatMap((other) => other.sentences.map((each) => withoutLead(each.text))));
  const own = side.sentences.map((each) => withoutLead(each.text)).filter((text) => !theirs.has(text));
  for (const text of [...texts(said)]) markIn(text, own);
  if (own.length) said.after(make("p", { className: "key" },
    make("span", { className: "own" }, "Marked"), ": only in this run."));
  const units = (reply) => reply.evidence.filter((item) => citedOf(reply).has(item.number))
    .map((item) => item.unit_id);
  const shared = new Set(others.flatMap(units));
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

const relist = afterTyping(() => list());
at("choice").addEventListener("submit", (event) => event.preventDefault());
at("choice").addEventListener("input", relist);
addEventListener("hashchange", () => {
  if (at("choice").hidden) return; // the runs are on their way, and their start reads the address
  restore();
  list();
});
withKey(start);
start();
