// Draws what a clinician reads first: bottom line, certainty, what is not told, and the findings.
// Each word shown comes from the server; here it is only put into place.

import { make, short } from "./dom.js";
import { badge, citation, standingMark, titleOf } from "./evidence.js";

// Sentences of the bottom line with their citations.
export function bottomLine(reading, evidence, open) {
  return reading.bottom_line.map(({ text, citations }) => {
    const last = text.search(/\S+$/); // no line begins with the first mark
    const [first, ...others] = citations.map((number) =>
      citation(evidence.find((item) => item.number === number), number, open));
    return make("p", { dir: "auto" }, text.slice(0, last),
      make("span", { className: "kept" }, text.slice(last), first ?? ""), ...others);
  });
}

// The best grade, and the sources by kind.
export function certainty({ grade, study, claimed, sources, sentence }) {
  if (!sources) return [make("p", {}, "No paper stands behind an answer.")];
  return [make("p", { className: "best" }, badge(grade, claimed),
    make("span", {}, claimed ? `calls itself a ${study}` : study || "kind of study not known")),
  make("p", { className: "sum" }, sentence)];
}

export const points = (reading) => reading.untold.map((point) =>
  make("li", { className: point.kind, dir: "auto" }, point.text));

// ---- the findings ----

// What an answer's model found, else the sentences of the answer, each with what it cites first.
export const findingsOf = (reply) => reply.findings.length ? reply.findings
  : reply.state === "not" ? [] : reply.sentences.filter((each) => each.part !== "limits" && each.citations.length).map(quoted(reply));

// A sentence as a finding: where its evidence holds it word for word, in the evidence's words.
const quoted = (reply) => ({ text, citations: [number], places }) => {
  const place = places.find((each) => each.number === number);
  const item = place && reply.evidence.find((each) => each.number === number);
  return { number, text: item ? [...item.text].slice(place.start, place.end).join("") : text, ...place };
};

// Fills a table with the findings; `open` is called with the number of a finding's evidence, the
// button and the finding.
export function showFindings(table, reply, open) {
  const found = findingsOf(reply);
  const kinds = found.some((each) => each.kind);
  const heads = ["Finding", ...(kinds ? ["Kind"] : []), "Source"];
  table.replaceChildren(
    make("thead", {}, make("tr", {}, ...heads.map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, ...found.map((finding) => row(finding, reply, open, kinds))));
  table.hidden = !found.length;
}

function row(finding, reply, open, kinds) {
  const item = reply.evidence.find((each) => each.number === finding.number);
  const button = item ? sourceOf(item, reply) : "";
  const line = make("tr", {},
    cell("Finding", make("span", { dir: "auto", className: "quote" }, finding.text)),
    ...(kinds ? [cell("Kind", finding.kind)] : []),
    cell("Source", item ? standingMark(item) : null, button));
  line.dataset.number = finding.number;
  if (item) button.addEventListener("click", () => open(finding.number, button, finding));
  return line;
}

function sourceOf(item, reply) {
  const title = titleOf(item);
  return make("button", {
    type: "button", className: "source", "aria-label": `Evidence ${item.number}, grade ${item.grade || "not known"}: ${title}`,
  }, badge(item.grade, claims(reply, item.number)), ` ${short(title, 70)}`, item.year ? ` (${item.year})` : "");
}

export const cell = (name, ...content) => {
  const node = make("td", {}, ...content.filter(Boolean));
  node.dataset.name = name;
  return node;
};

export const claims = (reply, number) =>
  Boolean(reply.clinical?.papers.find((each) => each.number === number)?.claims);
