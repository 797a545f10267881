// Draws answers with citations, and cards for their evidence.

import { make, several, short } from "./dom.js";
import { spansOf, windowOf } from "./window.js";

export const GRADES = {
  A: ["guideline or consensus", "Experts' recommendations from the evidence as a whole."],
  B: ["systematic review or meta-analysis", "Sums up the studies on a question."],
  C: ["randomised trial", "Chance decided who was treated how."],
  D: ["cohort study", "People were followed; nobody assigned their treatment by chance."],
  E: ["other study", "Case series, surveys, laboratory work and opinion."],
};
const READ_FROM = {
  publication_type: "its publication type", mesh: "the terms that it is indexed by",
  metadata: "what its source states", rule: "its title and wording",
};
const PARTS = {
  P: "Population", I: "Intervention", C: "Comparison", O: "Outcome", T: "Time",
};

// `claimed`: only the document itself says that it is a guideline.
export function badge(grade, claimed = false) {
  const [study] = GRADES[grade] ?? ["kind of study not known"];
  const told = claimed ? `calls itself a guideline` : study;
  return make("span", {
    className: `grade ${grade || "none"}${claimed ? " claimed" : ""}`,
    textContent: `${grade || "–"}${claimed ? "?" : ""}`, role: "img",
    "aria-label": grade ? `Grade ${grade}, ${told}` : "No grade", title: told,
  });
}

export function gradeTable() {
  return make("dl", { className: "grades" }, ...Object.entries(GRADES).flatMap(
    ([grade, [study, meaning]]) => [
      make("dt", {}, badge(grade)),
      make("dd", {}, make("strong", {}, study[0].toUpperCase() + study.slice(1)), ` ${meaning}`),
    ]));
}

// The beginning of a passage, as the title of a document without one.
export const titleOf = (item) => item.title || `“${short(item.text.replace(/^#+\s*/, ""), 90)}”`;

// ---- the answer ----

// Paragraphs and lists ("- "), each [n] a button that opens the card of that evidence.
export function paragraphs(text, evidence, open) {
  const pieces = (line) => line.split(/\s*(\[\d+\])/).map((piece) => {
    const number = Number(/^\[(\d+)\]$/.exec(piece)?.[1]);
    return number ? citation(evidence.find((item) => item.number === number), number, open) : piece;
  });
  return text.split("\n\n").flatMap((part) => {
    const lines = part.split("\n");
    const items = lines.filter((line) => line.startsWith("- "));
    const prose = lines.filter((line) => !line.startsWith("- ")).join(" ");
    return [
      ...(prose ? [make("p", {}, ...pieces(prose))] : []),
      ...(items.length ? [make("ul", {}, ...items.map((line) => make("li", { dir: "auto" }, ...pieces(line.slice(2)))))] : []),
    ];
  });
}

export function citation(item, number, open) {
  const grade = item?.grade ?? "";
  const button = make("button", {
    type: "button", className: `cite ${grade}`, title: item ? titleOf(item) : "",
    "aria-label": `Evidence ${number}${grade ? `, grade ${grade}` : ""}${item ? `: ${titleOf(item)}` : ""}`,
  }, String(number), grade ? make("span", { "aria-hidden": "true" }, grade) : null);
  button.addEventListener("click", () => open(number, button));
  return button;
}

// Summarises the sources of an answer by grade.
export function restsOn(reply) {
  const cited = citedOf(reply);
  const documents = new Map(reply.evidence.filter((item) => cited.has(item.number))
    .map((item) => [item.doc_id, item]));
  if (!documents.size) return null;
  const counts = [...Object.keys(GRADES), ""].map((grade) =>
    [grade, [...documents.values()].filter((item) => item.grade === grade).length]);
  return make("p", { className: "rests" }, `Rests on ${several(documents.size, "source")}: `,
    ...counts.filter(([, count]) => count).map(([grade, count]) =>
      make("span", {}, badge(grade), ` ${count} × ${GRADES[grade]?.[0] ?? "kind not known"}`)));
}

export const citedOf = (reply) => new Set(reply.sentences.flatMap((each) => each.citations));

// ---- the cards ----

// Fills a list with cards of all evidence: cited ones first, the others behind a button. Returns a
// function that opens the card of a number, given the button that was pressed.
export function showEvidence(list, reply, side = "") {
  const cited = citedOf(reply);
  const cards = new Map(reply.evidence.map((item) =>
    [item.number, card(item, cited.has(item.number), reply, side)]));
  const entries = (numbers) => numbers.filter((number) => cards.has(number))
    .map((number) => make("li", {}, cards.get(number)));
  const first = entries([...cited]); // a set keeps the order in which the answer cites
  const others = entries([...cards.keys()].filter((number) => !cited.has(number)));
  list.replaceChildren(...first);
  if (others.length) {
    const told = first.length ? `${several(others.length, "more passage")} found, not cited`
      : `${several(others.length, "passage")} found, none cited`;
    const more = make("details", { className: "others" }, make("summary", {}, told),
      make("ul", { className: "cards" }, ...others));
    list.append(make("li", {}, more));
  }
  return (number, asker) => openCard(cards.get(number), asker);
}

function openCard(node, asker) {
  if (!node) return;
  node.closest(".others")?.setAttribute("open", "");
  node.open = true;
  for (const other of document.querySelectorAll(".card.shown")) other.classList.remove("shown");
  node.classList.add("shown");
  const summary = node.querySelector("summary");
  const back = () => { asker.scrollIntoView({ block: "center" }); asker.focus(); };
  node.onkeydown = (event) => { if (event.key === "Escape") back(); };
  const button = node.querySelector(".back");
  button.hidden = false;
  button.onclick = back;
  summary.focus({ preventScroll: true });
  node.scrollIntoView({ block: "start" });
}

function card(item, cited, reply, side) {
  const facts = [item.study || GRADES[item.grade]?.[0] || "kind of study not known", item.year || ""];
  return make("details", { className: `card${cited ? " cited" : ""}`, id: `e${side}${item.number}` },
    make("summary", {},
      make("span", { className: "number" }, String(item.number)), badge(item.grade),
      make("span", { className: "title" }, standingMark(item), titleOf(item)),
      make("span", { className: "facts" }, facts.filter(Boolean).join(" · "))),
    opened(item, cited, reply));
}

const STANDINGS = {
  copy: "Another copy", deleted: "Deleted", retracted: "Retracted", concern: "Expression of concern",
  superseded: "Superseded", corrected: "Corrected", preprint: "Preprint",
  retraction_notice: "Retraction notice", concern_notice: "Notice of concern",
  correction_notice: "Correction notice",
};

// The same in the run of a sentence.
export const markedTitle = ({ title, status }) => (STANDINGS[status] ? `[${STANDINGS[status]}] ${title}` : title);

// A red mark before the title of a paper that is not in order in the literature.
export function standingMark(item) {
  const said = STANDINGS[item.standing];
  return said ? make("span", { className: "standing", title: item.standing_link || "" }, said) : null;
}

// Where a piece of evidence holds what the answer and its findings rest on.
export const placesIn = (reply, number) =>
  [...reply.sentences.flatMap((each) => each.places), ...reply.findings]
    .filter((each) => each.number === number && each.end > each.start);

function opened(item, cited, reply) {
  const said = reply.sentences.filter((each) => each.citations.includes(item.number));
  const spans = spansOf(item, said.map((each) => each.text), placesIn(reply, item.number));
  const paraphrased = cited && !spans.length && "The answer says this in words of its own.";
  return make("div", { className: "opened" },
    chips(item),
    item.section && !item.text.trimStart().startsWith("#") ? make("p", { className: "section" }, item.section) : null,
    windowOf(item.text, spans), figures(item),
    paraphrased ? make("p", { className: "quiet" }, paraphrased) : null,
    source(item), gradeLine(item),
    make("button", { type: "button", className: "back plain", hidden: true }, "↑ Back to the answer"));
}

export function figures(item) {
  if (!item.figures?.length) return null;
  return make("ul", { className: "figures", "aria-label": "Figures that this passage names" },
    ...item.figures.map((each) => make("li", {}, `${each.name}: ${each.caption}${each.image ? ` (${each.image})` : ""}`)));
}

export function source(item) {
  const line = make("p", { className: "source" });
  if (/^\d+$/.test(item.pmid)) {
    line.append(make("a", {
      href: `https://pubmed.ncbi.nlm.nih.gov/${item.pmid}/`, target: "_blank",
      rel: "noopener noreferrer",
    }, `PMID ${item.pmid}`), " · ");
  }
  const id = item.source_id === item.pmid ? "" : item.source_id;
  line.append([id, item.year || "year not known"].filter(Boolean).join(" · "));
  return line;
}

export function gradeLine(item) {
  const [study, meaning] = GRADES[item.grade] ?? [];
  const from = READ_FROM[(item.grade_source ?? "").split(":")[0]];
  const told = study
    ? `Grade ${item.grade}, ${study}. ${meaning}${from ? ` Read from ${from}.` : ""}`
    : "No grade: the text does not tell what kind of study it is.";
  return make("p", { className: "quiet" }, told);
}

// ---- the parts of the question ----

export function chips(item) {
  const stated = new Set((item.quotes ?? []).flatMap((quote) => quote.parts ?? []));
  if (!stated.size) return null;
  const matched = Object.keys(PARTS).filter((part) => stated.has(part)).map((part) =>
    make("li", { className: "chip" }, `${PARTS[part]} stated`));
  return make("ul", { className: "chips", "aria-label": "Parts of the question in this passage" },
    ...matched);
}
