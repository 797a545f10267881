// The question page: streams the answer, and shows its evidence and a feedback form.

import { at, call, fail, make, read, withKey } from "./dom.js";
import { gradeTable, paragraphs, restsOn, showEvidence } from "./evidence.js";
import { showSteps, showWhy, stepName, understood } from "./why.js";

const EXAMPLES = [
  "How long may an acute lateral ankle sprain be immobilised in a cast?",
  "Does bed rest help acute low back pain?",
  "When can athletes return to sport after anterior cruciate ligament reconstruction?",
];
const nowhere = () => {};
let asking = null;
let shown = null; // the reply that feedback is about
let draft = { text: "", evidence: [] };

// ---- asking ----

async function ask(event) {
  event.preventDefault();
  asking?.abort();
  const own = (asking = new AbortController());
  clear();
  try {
    const body = { question: at("question").value, options: { trace: true } };
    if (at("pipeline").value) body.pipeline = at("pipeline").value;
    const response = await call("v1/answers/stream", { body, signal: own.signal });
    let last = "";
    for await (const [name, data] of events(response)) {
      last = name;
      if (own === asking) hear(name, data);
    }
    if (last !== "final" && last !== "error") throw new Error("The answer broke off.");
  } catch (error) {
    if (own === asking) fail(error);
  } finally {
    if (own === asking) at("progress").textContent = "";
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

function hear(name, data) {
  if (name === "stage") at("progress").textContent = `${stepName(data.step)} …`;
  if (name === "token") showDraft(data.text, draft.evidence);
  if (name === "evidence") showDraft("", data.evidence);
  if (name === "final") show(data);
  if (name === "error") fail(data.error);
}

// ---- showing ----

function clear() {
  for (const id of ["answer", "rests", "evidence", "reasons", "steps"]) at(id).replaceChildren();
  for (const id of ["notice", "note", "standing", "left-out", "result", "feedback", "why", "examples"]) at(id).hidden = true;
  fail(null);
  [draft, shown] = [{ text: "", evidence: [] }, null];
  at("by").textContent = "";
  at("progress").textContent = "Asking …";
}

function showDraft(text, evidence) {
  draft = { text: draft.text + text, evidence };
  at("result").hidden = false;
  at("answer").className = "draft";
  at("answer").replaceChildren(...paragraphs(draft.text, evidence, nowhere));
}

// What the support gate dropped, and the steps that the answer went on without, as quiet lines.
const leftOut = (reply) => [reply.support_note,
  ...(reply.degraded ?? []).map((each) => `Without ${each.step}: ${each.fault}`)]
  .filter(Boolean).join(" ");

export function show(reply) {
  shown = reply;
  at("result").hidden = false;
  at("answer-title").textContent = reply.insufficient ? "Not enough evidence" : "Answer";
  const open = showEvidence(at("evidence"), reply);
  at("answer").className = reply.insufficient ? "insufficient" : "";
  at("answer").replaceChildren(...paragraphs(reply.answer, reply.evidence, open));
  at("rests").replaceChildren(restsOn(reply) ?? "");
  // Without an answer, mismatches of the passages are of little interest.
  for (const [id, text] of [["notice", reply.insufficient ? "" : reply.notice], ["note", reply.note],
    ["standing", reply.standing_note], ["left-out", leftOut(reply)]]) {
    at(id).textContent = text;
    at(id).hidden = !text;
  }
  const quoted = reply.insufficient ? "No language model was asked."
    : "Quoted from the sources; no language model wrote this.";
  const writer = reply.model === "rules" ? quoted : `Written by ${reply.model}.`;
  at("by").textContent = `${writer} Pipeline ${reply.pipeline}, build ${reply.version.slice(0, 8)}.`;
  at("why").hidden = false;
  at("understood").textContent = understood(reply.expansion);
  showWhy(at("reasons"), reply);
  showSteps(at("steps"), reply.trace);
  askForFeedback();
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

async function tell(verdict, comment = "", question = "") {
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
  at("more").hidden = !(await tell(chosen.value));
}

async function explain(event) {
  event.preventDefault();
  const verdict = at("feedback").querySelector("[aria-pressed=true]").value;
  const question = at("with-question").checked ? shown.question : "";
  at("more").hidden = await tell(verdict, at("comment").value, question);
}

// ---- start ----

async function pipelines() {
  try {
    const { data } = await read("v1/models");
    const names = data.filter((item) => !item.alias_of).map((item) => item.id);
    at("pipeline").replaceChildren(...names.map((name) => make("option", {}, name)));
    at("pipelines").hidden = names.length < 2;
    fail(null);
  } catch (error) {
    fail(error);
  }
}

at("examples").append(...EXAMPLES.map((text) => {
  const button = make("button", { type: "button" }, text);
  button.addEventListener("click", () => {
    at("question").value = text;
    at("ask").requestSubmit();
  });
  return button;
}));
at("grades").append(gradeTable());
at("ask").addEventListener("submit", ask);
at("question").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    at("ask").requestSubmit();
  }
});
verdicts().forEach((button) => button.addEventListener("click", judge));
at("feedback").addEventListener("submit", explain);
withKey(pipelines);
pipelines();
