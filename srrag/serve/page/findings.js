// The table of findings: each quote with population, effect and source.

import { make, short } from "./dom.js";
import { badge, standingMark, titleOf } from "./evidence.js";

const HEADS = ["Finding", "Population", "Effect", "Source"];
const OF_A_MODEL = ["Finding", "Kind", "Source"];

// Fills a table with the findings that the answer names, else with those that rules read in it.
// `open` is called with the number of a finding's evidence, the button and the finding.
export function showFindings(table, reply, open) {
  const own = reply.findings.length > 0;
  const rows = own ? reply.findings.map((finding, n) => named(finding, reply, open, n))
    : reply.clinical.findings.map((finding) => row(finding, reply, open));
  const heads = own ? OF_A_MODEL : HEADS;
  table.replaceChildren(
    make("thead", {}, make("tr", {}, ...heads.map((name) => make("th", { scope: "col" }, name)))),
    make("tbody", {}, ...rows));
  table.hidden = !rows.length;
}

// A finding that the answer names: what a paper says, and the sentence of it that opens marked.
function named(finding, reply, open, n) {
  const item = reply.evidence.find((each) => each.number === finding.number);
  const button = item ? sourceOf(item, reply) : "";
  const line = make("tr", { id: `f${finding.number}-${n}` },
    cell("Finding", make("span", { dir: "auto", className: "quote" }, finding.text)),
    cell("Kind", finding.kind), cell("Source", item ? standingMark(item) : null, button));
  if (item) button.addEventListener("click", () => open(finding.number, button, finding));
  return line;
}

function sourceOf(item, reply) {
  const title = titleOf(item);
  return make("button", {
    type: "button", className: "source", "aria-label": `Evidence ${item.number}, grade ${item.grade || "not known"}: ${title}`,
  }, badge(item.grade, claims(reply, item.number)), ` ${short(title, 70)}`, item.year ? ` (${item.year})` : "");
}

function row(finding, reply, open) {
  const item = reply.evidence.find((each) => each.number === finding.number);
  const button = sourceOf(item, reply);
  const line = make("tr", {
    className: [finding.cited ? "" : "uncited", finding.on_outcome ? "" : "aside"].join(" ").trim(),
    id: `f${finding.number}`,
  },
    cell("Finding", finding.says ? make("span", { className: "says" }, finding.says) : null,
      finding.cited ? null : make("span", { className: "says not" }, "found, not cited"),
      make("span", { dir: "auto", className: "quote" }, finding.quote)),
    cell("Population", finding.population || make("span", { className: "quiet" }, "not in the title"),
      finding.enrolled ? make("span", { className: "fine" }, `n = ${finding.enrolled}`) : null),
    cell("Effect", ...effects(finding)),
    cell("Source", standingMark(item), button));
  button.addEventListener("click", () => open(finding.number, button, finding));
  return line;
}

export const cell = (name, ...content) => {
  const node = make("td", {}, ...content.filter(Boolean));
  node.dataset.name = name;
  return node;
};

function effects(finding) {
  if (!finding.effects.length) {
    return [make("span", { className: "quiet" }, finding.on_outcome ? "no figure" : "another outcome")];
  }
  return finding.effects.map((each) => make("span", { className: "effect" }, each.text,
    each.p && !/\bp\s?[<=>≤≥]/i.test(each.text) ? `, p ${each.p}` : ""));
}

export const claims = (reply, number) =>
  Boolean(reply.clinical?.papers.find((each) => each.number === number)?.claims);
