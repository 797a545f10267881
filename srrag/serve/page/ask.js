// The question page: streams the answer, and shows what a clinician reads of it.

import { findingsHere, offerAcross } from "./across.js";
import { at, call, during, fail, make, read, several, withKey } from "./dom.js";
import { badge, gradeTable, paragraphs, standingMark, titleOf } from "./evidence.js";
import { showPaper } from "./paper.js";
import { address, current, moveTo, remember, showPast } from "./places.js";
import { bottomLine, certainty, claims, findingsOf, points, showFindings } from "./reading.js";
import { offer, turnOf } from "./take.js";
import { showSteps, stepName } from "./why.js";

const nowhere = () => {};
const known = new Map(); // replies by address, for back and forward
let asking = null;
let shown = null; // the reply that feedback is about
let turns = []; // what the question in the box leans on
let draft = { text: "", evidence: [] };

// ---- asking ----

const ask = (...asked) => during(answer(...asked));

async function answer(question, wanted = "", before = []) {
  asking?.abort();
  const own = (asking = new AbortController());
  const place = { question, pipeline: at("pipelines").hidden ? "" : at("pipeline").value };
  at("question").value = question;
  turns = before;
  clear();
  moveTo(place, false, before);
  try {
    const body = { question, options: { trace: true, clinical: true } };
    if (before.length) body.history = before;
    if (place.pipeline) body.pipeline = place.pipeline;
    const response = await call("v1/answers/stream", { body, signal: own.signal });
    let last = "";
    for await (const [name, data] of events(response)) {
      last = name;
      if (own === asking) hear(name, data, wanted);
    }
    if (last !== "final" && last !== "error") throw new Error("The answer broke off.");
  } catch (error) {
    if (own === asking && error.name !== "AbortError") fail(error);
  } finally {
    if (own === asking) {
      at("progress").textContent = "";
      asking = null;
    }
  }
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

function hear(name, data, wanted) {
  if (name === "stage") at("progress").textContent = `${stepName(data.step)} …`;
  if (name === "finding") at("progress").textContent = `${data.text} [${data.number}]`;
  if (name === "token") showDraft(data.text, draft.evidence);
  if (name === "evidence") showDraft("", data.evidence);
  if (name === "error") fail(data.error);
  if (name !== "final") return;
  remember(data.question);
  moveTo({ ...current(), question: data.question }, true);
  at("question").value = "";
  known.set(location.search, data);
  show(data);
  if (wanted && !data.version.startsWith(wanted)) {
    tell("notice", "The library has changed since this link was made, and so may the answer.");
  }
  at("asked").focus({ preventScroll: true });
}

// ---- showing ----

const FOLDED = ["read-as", "verdict", "notice", "standing", "missing", "note", "limits", "left-out"];

function clear() {
  for (const id of ["answer", "sure", "in-short", "points", "findings", "full", "uncited", "references", "steps", "paper"]) {
    at(id).replaceChildren();
  }
  for (const id of [...FOLDED, "result", "feedback", "start", "headline", "paper"]) at(id).hidden = true;
  for (const id of ["whole", "others", "steps-taken"]) at(id).open = false;
  document.getElementById("paper-row")?.remove();
  document.body.classList.add("answered");
  at("question").placeholder = "A follow-up or new question";
  fail(null);
  [draft, shown] = [{ text: "", evidence: [] }, null];
  at("said").textContent = "";
  at("progress").textContent = "Asking …";
}

function showDraft(text, evidence) {
  draft = { text: draft.text + text, evidence };
  at("result").hidden = false;
  at("result").className = "draft";
  at("asked").textContent = current().question;
  at("answer-title").textContent = "Draft";
  at("answer").replaceChildren(...paragraphs(draft.text, evidence, nowhere));
}

function tell(id, text) {
  at(id).textContent = text ?? "";
  at(id).hidden = !text;
}

// The notes of these kinds, as one text.
const notes = (reply, ...kinds) =>
  reply.notes.filter((each) => kinds.includes(each.kind)).map((each) => each.text).join(" ");

// The option chosen, and whether the evidence answers all.
const verdict = (reply) => [reply.option && `Chosen: ${reply.option}`, reply.state === "partly" && "Answered in part"]
  .filter(Boolean).join(" · ");

export function show(reply) {
  shown = reply;
  turns = [turnOf(reply)];
  const { clinical: reading } = reply;
  const open = (number, asker, finding) => openPaper(reply, number, asker, finding);
  at("result").hidden = false;
  const silent = reply.state === "not";
  at("result").className = reply.state;
  at("asked").textContent = reply.question;
  at("answer-title").textContent = reading.heading;
  at("answer").replaceChildren(...(reading.bottom_line.length
    ? [...bottomLine(reading, reply.evidence, open), studies(reply, open)]
    : paragraphs(reply.answer, reply.evidence, open)).filter(Boolean));
  at("sure").replaceChildren(...certainty(reading.certainty));
  at("certainty").hidden = at("untold").hidden = silent;
  at("points").replaceChildren(...points(reading));
  tell("verdict", verdict(reply));
  tell("notice", reading.language);
  tell("missing", reply.missing && `Missing: ${reply.missing}`);
  tell("note", notes(reply, "evidence"));
  showLimits(reply, open);
  tell("read-as", reply.rewritten_from && `You asked “${reply.rewritten_from}”, which was read as the question above.`);
  tell("standing", notes(reply, "publication"));
  tell("left-out", notes(reply, "support", "degraded"));
  showFindings(at("findings"), reply, open);
  at("findings-title").textContent = silent ? "What was found" : "Findings";
  at("full").replaceChildren(...paragraphs(reply.answer, reply.evidence, open));
  at("whole").hidden = silent;
  showOthers(reply, open);
  showFirst(reply);
  at("references").replaceChildren(...reading.references.map((line) => make("li", { dir: "auto" }, line)));
  at("sources").hidden = !reading.references.length;
  offer(reply, address({ ...current(), question: reply.question, version: reply.version }));
  offerAcross(reply);
  at("by").textContent = writer(reply);
  showSteps(at("steps"), reply.trace);
  at("said").textContent = [reading.heading, ...(reading.bottom_line.length
    ? reading.bottom_line.map((line) => line.text) : [reply.answer]), reading.certainty.sentence].join(". ");
  askForFeedback();
}

function writer(reply) {
  const quoted = reply.state === "not" ? "No language model was asked."
    : "Quoted from the sources; no language model wrote this.";
  const by = reply.model === "rules" ? quoted : `Written by the language model ${reply.model.split(": ").pop()}.`;
  return `${by} Pipeline ${reply.pipeline}, build ${reply.version.slice(0, 8)}.`;
}

// ---- the papers ----

function openPaper(reply, number, asker, finding) {
  const row = asker.closest("tr") ? asker
    : document.querySelector(`#findings [data-number="${number}"] .source`) ?? asker;
  showPaper(at("paper"), reply, number, finding, asker);
  if (row !== asker) row.closest("tr").classList.add("shown");
  const paper = at("paper");
  paper.focus({ preventScroll: true });
  if (paper.getBoundingClientRect().top < 0 || paper.getBoundingClientRect().top > innerHeight * 0.6) {
    paper.scrollIntoView({ block: "start" });
  }
}

// Beside the table the paper of the first finding stands open from the start.
function showFirst(reply) {
  const [first] = findingsOf(reply);
  if (first && matchMedia("(min-width: 1024px)").matches) {
    showPaper(at("paper"), reply, first.number, first, null);
  }
}

// What limits the answer stands apart from it.
function showLimits(reply, open) {
  const limits = items(reply, (each) => each.part === "limits", open);
  at("limits").hidden = !limits.length;
  at("limited-by").replaceChildren(...limits);
}

// Under a model's lead stands what else the studies say; quotes stand in the table of findings.
function studies(reply, open) {
  const lead = reply.sentences.find((each) => each.part === "answer");
  const told = reply.model === "rules" ? []
    : items(reply, (each) => each !== lead && each.part !== "limits", open);
  return told.length ? make("ul", {}, ...told) : null;
}

// Sentences of the answer as items of a list.
const items = (reply, wanted, open) => reply.sentences.filter(wanted)
  .map((each) => make("li", { dir: "auto" }, ...paragraphs(
    `${each.text} ${each.citations.map((n) => `[${n}]`).join("")}`, reply.evidence, open)));

function showOthers(reply, open) {
  const cited = new Set(reply.sentences.flatMap((each) => each.citations));
  const others = reply.evidence.filter((item) => !cited.has(item.number));
  at("others").hidden = !others.length;
  at("others").open = reply.state === "not";
  at("others").querySelector("summary").textContent = cited.size
    ? `${several(others.length, "more passage")} found, not cited`
    : `${several(others.length, "passage")} found, none cited`;
  at("uncited").replaceChildren(...others.map((item) => {
    const button = make("button", { type: "button", className: "source", dir: "auto" },
      badge(item.grade, claims(reply, item.number)), " ", standingMark(item), titleOf(item), item.year ? ` (${item.year})` : "");
    button.addEventListener("click", () => open(item.number, button));
    return make("li", {}, button);
  }));
}

// ---- feedback ----

const verdicts = () => at("feedback").querySelectorAll("fieldset button");

function askForFeedback() {
  at("feedback").hidden = false;
  at("feedback").reset();
  at("more").hidden = true;
  at("thanks").textContent = "";
  verdicts().forEach((button) => button.setAttribute("aria-pressed", "false"));
}

async function send(verdict, comment = "", question = "") {
  const { id, pipeline, version } = shown;
  const body = { answer_id: id, verdict, comment, pipeline, version };
  if (question) body.question = question;
  try {
    const { kept_in: file } = await read("v1/feedback", { body });
    const what = question ? "with your question" : "without your question";
    at("thanks").textContent = `Thank you. Kept ${what} in ${file} on this server.`;
    return true;
  } catch (error) {
    at("thanks").textContent = `Not kept: ${error.message}`;
    return false;
  }
}

async function judge(event) {
  const chosen = event.currentTarget;
  verdicts().forEach((button) => button.setAttribute("aria-pressed", String(button === chosen)));
  at("more").hidden = !(await send(chosen.value));
}

async function explain(event) {
  event.preventDefault();
  const verdict = at("feedback").querySelector("[aria-pressed=true]").value;
  const question = at("with-question").checked ? shown.question : "";
  at("more").hidden = await send(verdict, at("comment").value, question);
}

// ---- start ----

async function begin() {
  try {
    const { data } = await read("v1/models");
    const names = data.filter((item) => !item.alias_of).map((item) => item.id);
    at("pipeline").replaceChildren(...names.map((name) => make("option", {}, name)));
    at("pipelines").hidden = names.length < 2;
    if (names.includes(current().pipeline)) at("pipeline").value = current().pipeline;
    fail(null);
    showLibrary(await read("v1/library"));
    if (current().question && !asking) arrive(); // else the reader may be typing, or has asked already
  } catch (error) {
    fail(error);
  }
}

function showLibrary({ papers, grades, oldest, newest, examples, findings }) {
  findingsHere(findings);
  const top = [["A", "guideline"], ["B", "systematic review"], ["C", "randomised trial"]]
    .map(([grade, name]) => grades[grade] ? several(grades[grade], name) : `no ${name}`);
  const years = newest ? `, ${oldest} to ${newest}` : "";
  at("library").textContent = `This library holds ${several(papers, "paper")}${years}: ${top.join(", ")}.`;
  at("example-questions").hidden = !examples.length;
  at("examples").replaceChildren(...examples.map((text) => {
    const button = make("button", { type: "button", dir: "auto" }, text);
    button.addEventListener("click", () => ask(text));
    return button;
  }));
}

// Shows what the address says: an answer that is known already, a question to ask, or the start.
function arrive() {
  const { question, version } = current();
  const reply = known.get(location.search);
  if (question && reply) {
    asking?.abort();
    asking = null;
    clear();
    at("progress").textContent = "";
    show(reply);
  } else if (question) {
    ask(question, version, history.state ?? []);
  } else {
    asking?.abort();
    turns = [];
    clear();
    document.body.classList.remove("answered");
    at("question").placeholder = "A clinical question, in a sentence";
    at("progress").textContent = at("question").value = "";
    at("start").hidden = at("headline").hidden = false;
    showPast(ask);
  }
}

const online = () => { at("offline").hidden = navigator.onLine; };

at("grades").append(gradeTable());
at("ask").addEventListener("submit", (event) => { event.preventDefault(); ask(at("question").value, "", turns); });
at("question").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    at("ask").requestSubmit();
  }
});
verdicts().forEach((button) => button.addEventListener("click", judge));
at("feedback").addEventListener("submit", explain);
at("edit").addEventListener("click", () => {
  at("question").value = shown.question;
  at("question").focus();
});
addEventListener("popstate", arrive);
addEventListener("online", online);
addEventListener("offline", online);
online();
showPast(ask);
withKey(begin);
begin();
