// Draws what a clinician reads first: bottom line, certainty, match and what is not told. Each word
// shown comes from the server; here it is only put into place.

import { make } from "./dom.js";
import { badge, citation } from "./evidence.js";

const BLIND = "Read by rule, which was wrong in about one of seven papers: read the quote.";
const UNCLEAR = "Read by rule, and of what is not clear one word in three was wrong: read the quotes.";
const STATES = {
  yes: ["✓", "held"], partly: ["◐", "in part"], no: ["✗", "not held"],
  other: ["≠", "another"], not_asked: ["–", "not asked"],
};

// Sentences of the bottom line with their citations.
export function bottomLine(reading, evidence, open) {
  return reading.bottom_line.map(({ cut, text, citations }) => {
    const last = text.search(/\S+$/); // no line begins with the first mark
    const [first, ...others] = marks(citations, evidence, open);
    return make("p", { dir: "auto" }, cut ? "… " : "", text.slice(0, last),
      make("span", { className: "kept" }, text.slice(last), first ?? ""), ...others);
  });
}

const marks = (numbers, evidence, open) => numbers.map((number) =>
  citation(evidence.find((item) => item.number === number), number, open));

// The best grade, the sources by kind, and what the papers say together.
export function certainty(reading, evidence, open) {
  const { grade, study, claimed, sources, says, sentence } = reading.certainty;
  if (!sources) return [make("p", {}, "No paper stands behind an answer.")];
  const best = make("p", { className: "best" }, badge(grade, claimed),
    make("span", {}, claimed ? `calls itself a ${study}` : study || "kind of study not known"));
  const told = toldBy(reading);
  const lines = sides(told).map(([name, numbers]) => make("li", {},
    make("span", { className: "says" }, name), ...marks(numbers, evidence, open)));
  const differ = { depends: "It depends: the papers differ", mixed: "The papers differ" }[says];
  return [best, make("p", { className: "sum" }, sentence),
    differ ? make("p", { className: "label" }, differ) : null,
    lines.length ? make("ul", { className: "sides" }, ...lines) : null,
    lines.length ? make("p", { className: "fine" }, told.every((each) => each.clear) ? BLIND : UNCLEAR)
      : null].filter(Boolean);
}

// What is clear counts; where papers differ, all that they say.
function toldBy(reading) {
  const differ = ["depends", "mixed"].includes(reading.certainty.says);
  return differ ? reading.stances : reading.stances.filter((each) => each.clear);
}

// What is said, and the papers that say so.
function sides(stances) {
  const found = new Map();
  for (const each of stances) {
    found.set(each.says, [...(found.get(each.says) ?? []), each.number]);
  }
  return [...found];
}

export function parts(reading) {
  return reading.match.map((part) => {
    const [tick, state] = STATES[part.state];
    const lacking = part.lacking.length ? `without ${part.lacking.map((w) => `“${w}”`).join(", ")}` : "";
    return make("tr", { className: part.state },
      make("th", { scope: "row" }, part.name[0].toUpperCase() + part.name.slice(1)),
      make("td", { className: "asked", dir: "auto" }, part.asked || "not asked"),
      make("td", { className: "tick" }, make("span", { "aria-hidden": "true" }, tick),
        make("span", { className: "word" }, ` ${part.other ? `another: ${part.other}` : state}`),
        lacking && part.state !== "other" ? make("span", { className: "fine" }, lacking) : null));
  });
}

export const points = (reading) => reading.untold.map((point) =>
  make("li", { className: point.kind, dir: "auto" }, point.text));
