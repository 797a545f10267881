// Three columns of concepts, lines where studies name both ends, and those studies with their words.

import { at, make, several, short } from "./dom.js";
import { badge, source, standingMark } from "./evidence.js";

const SVG = "http://www.w3.org/2000/svg";
const TYPES = { Comparator: "comparator", Exposure: "exposure", AdverseEvent: "harm", Device: "device", Condition: "condition", Population: "population" };
const narrow = matchMedia("(max-width: 700px)");
let walk = null;
let buttons = [];
let chosen = [null, null, null]; // a concept of each column
let asker = null;

export function showWalk(content) {
  walk = content;
  at("title").textContent = content.title;
  at("facts").textContent = [
    content.total > content.documents.length
      ? `${content.documents.length} of ${several(content.total, "paper")}` : several(content.total, "paper"),
    "a line stands where papers name both its ends",
  ].join(" · ");
  const columns = document.querySelectorAll("#board .column");
  buttons = content.concepts.map((concept, n) => {
    const button = draw(concept);
    button.addEventListener("click", () => choose(concept.column, n, button));
    columns[concept.column].querySelector("ul").append(make("li", {}, button));
    return button;
  });
  columns.forEach((column, n) => {
    const list = column.querySelector("ul");
    if (content.left_out[n]) list.after(make("p", { className: "facts" }, `${content.left_out[n]} more not shown`));
    if (!list.children.length) list.after(make("p", { className: "facts" }, "No name clears the bar."));
  });
  restore();
  update();
  new ResizeObserver(drawLines).observe(at("board"));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") clear(); });
}

function draw(concept) {
  const kind = TYPES[concept.type];
  return make("button", { type: "button", className: `concept${concept.asked ? " asked" : ""}`, "aria-pressed": "false" },
    make("span", { className: "name", dir: "auto" }, concept.name),
    concept.aliases.length ? make("span", { className: "also" }, `also ${short(concept.aliases.join(", "), 60)}`) : null,
    make("span", { className: "facts" }, ...[...new Set(concept.studies.map((n) => walk.documents[n].grade))].slice(0, 1)
      .map((grade) => badge(grade)), ` ${several(concept.studies.length, "paper")}`, kind ? ` · ${kind}` : ""));
}

// ---- what is chosen ----

function choose(column, number, button) {
  asker = button;
  chosen[column] = chosen[column] === number ? null : number;
  // What shares no paper with the new choice is let go.
  for (let other = 0; other < 3; other += 1) {
    if (other !== column && chosen[other] !== null && !papers().length) chosen[other] = null;
  }
  update();
}

function clear() {
  if (chosen.every((each) => each === null)) return;
  chosen = [null, null, null];
  update();
  asker?.focus();
}

// Places of the papers that name all that is chosen.
function papers() {
  const sets = chosen.filter((each) => each !== null).map((n) => new Set(walk.concepts[n].studies));
  return walk.documents.map((_, n) => n).filter((n) => sets.every((set) => set.has(n)));
}

function update() {
  const held = new Set(papers());
  buttons.forEach((button, n) => {
    const concept = walk.concepts[n];
    button.setAttribute("aria-pressed", String(chosen[concept.column] === n));
    button.classList.toggle("off", !concept.studies.some((place) => held.has(place)));
  });
  const ids = chosen.map((n) => (n === null ? "" : walk.concepts[n].id));
  const place = ids.some(Boolean) ? `#${ids.join(",")}` : location.pathname + location.search;
  history.replaceState(null, "", place);
  drawPanel([...held]);
  drawLines();
}

function restore() {
  const ids = location.hash.slice(1).split(",");
  chosen = chosen.map((_, column) => {
    const found = walk.concepts.findIndex((each) => each.column === column && each.id === ids[column]);
    return found < 0 ? null : found;
  });
}

// ---- lines ----

function drawLines() {
  const lines = at("lines");
  lines.replaceChildren();
  if (narrow.matches || !walk) return;
  const board = at("board").getBoundingClientRect();
  lines.setAttribute("viewBox", `0 0 ${board.width} ${board.height}`);
  const held = new Set(papers());
  const any = chosen.some((each) => each !== null);
  walk.concepts.forEach((a, from) => walk.concepts.forEach((b, to) => {
    if (b.column !== a.column + 1) return;
    const shared = a.studies.filter((n) => b.studies.includes(n) && held.has(n)).length;
    if (!shared) return;
    const whole = (n) => chosen[walk.concepts[n].column] === null || chosen[walk.concepts[n].column] === n;
    lines.append(line(from, to, shared, board, any && whole(from) && whole(to)));
  }));
}

function line(from, to, shared, board, strong) {
  const [a, b] = [buttons[from], buttons[to]].map((each) => each.getBoundingClientRect());
  const [x1, y1] = [a.right - board.left, (a.top + a.bottom) / 2 - board.top];
  const [x2, y2] = [b.left - board.left, (b.top + b.bottom) / 2 - board.top];
  const middle = (x1 + x2) / 2;
  const path = `M${x1},${y1}C${middle},${y1} ${middle},${y2} ${x2},${y2}`;
  const mark = document.createElementNS(SVG, "g");
  mark.setAttribute("class", strong ? "line strong" : "line");
  mark.dataset.ends = `${from},${to}`;
  for (const kind of ["seen", "reach"]) {
    const drawn = document.createElementNS(SVG, "path");
    drawn.setAttribute("d", path);
    drawn.setAttribute("class", kind);
    if (kind === "seen") drawn.setAttribute("stroke-width", String(Math.min(6, 0.6 + shared)));
    mark.append(drawn);
  }
  const told = document.createElementNS(SVG, "title");
  told.textContent = `${walk.concepts[from].name} – ${walk.concepts[to].name}: ${several(shared, "paper")}`;
  mark.append(told);
  mark.addEventListener("click", () => {
    chosen[walk.concepts[from].column] = from;
    chosen[walk.concepts[to].column] = to;
    for (let n = 0; n < 3; n += 1) if (!papers().length && chosen[n] !== from && chosen[n] !== to) chosen[n] = null;
    asker = buttons[from];
    update();
    at("panel").focus({ preventScroll: true });
  });
  return mark;
}

// ---- the studies ----

function drawPanel(held) {
  const picked = chosen.filter((each) => each !== null);
  const names = picked.map((n) => walk.concepts[n].name);
  const told = picked.length > 1 ? `${several(held.length, "paper")} ${held.length === 1 ? "names" : "name"} ${picked.length === 2 ? "both" : "all three"}`
    : picked.length ? `${several(held.length, "paper")} ${held.length === 1 ? "names" : "name"} it` : several(held.length, "paper");
  at("said").textContent = names.length ? `${names.join(", ")}: ${told}` : "";
  const order = held.sort((a, b) => rank(a) - rank(b) || walk.documents[b].year - walk.documents[a].year);
  const items = order.map((n) => study(n, picked));
  const last = picked.at(-1);
  const onward = picked.length === 1 ? make("p", { className: "onward" }, make("a",
    { href: `graph?entity=${encodeURIComponent(walk.concepts[last].id)}` }, "All papers that name it")) : null;
  const undo = make("button", { type: "button", className: "plain" }, "Show all");
  undo.addEventListener("click", clear);
  const parts = [
    make("h2", { dir: "auto" }, names.length ? names.join(" → ") : "The papers"),
    make("p", { className: "quiet" }, picked.length ? told : "Choose a name or a line to read what the papers say of it."),
    picked.length ? undo : null, onward, make("ol", { className: "studies" }, ...items)];
  at("panel").replaceChildren(...parts.filter(Boolean));
  at("panel").scrollTop = 0;
  const button = last === undefined ? null : buttons[last];
  if (narrow.matches && button) button.after(at("panel"));
  else at("places").append(at("panel"));
}

const rank = (n) => "ABCDE".indexOf(walk.documents[n].grade || "F") + 6 * !walk.documents[n].grade;

function study(number, picked) {
  const paper = walk.documents[number];
  const quotes = picked.length ? said(number, picked) : [];
  const apart = picked.length > 1 && quotes.length > 1
    ? make("p", { className: "facts" }, "Named in different sentences of this paper.") : null;
  return make("li", {},
    make("p", { className: "title", dir: "auto" }, badge(paper.grade), " ", standingMark(paper), paper.title || paper.source_id),
    ...quotes, apart, source(paper));
}

// A sentence of a paper that names all that is chosen; else one for each.
function said(number, picked) {
  const of = picked.map((n) => walk.concepts[n].mentions.filter((each) => each.document === number));
  for (const sentence of of.flat()) {
    const spans = of.map((mentions) => mentions.map((each) => spanIn(sentence, each)).find(Boolean));
    if (spans.every(Boolean)) return [quote(sentence, spans)];
  }
  const first = of.filter((mentions) => mentions.length).map((mentions) => mentions[0]);
  return first.map((mention) => quote(mention, [spanIn(mention, mention)]));
}

// Where a mention lies in a sentence, which may be cut elsewhere than its own; null if it does not.
function spanIn(sentence, { quote: [before, own, after] }) {
  const [left, right] = [before.slice(-20).replace(/^.*…/, ""), after.slice(0, 20).replace(/….*$/, "")];
  const found = sentence.quote.join("").indexOf(left + own + right);
  return found < 0 ? null : [found + left.length, found + left.length + own.length];
}

// One sentence with the words of each mention marked.
function quote(sentence, spans) {
  const words = sentence.quote.join("");
  const node = make("blockquote", { dir: "auto" });
  let end = 0;
  for (const [from, to] of spans.sort((a, b) => a[0] - b[0])) {
    if (from < end) continue;
    node.append(words.slice(end, from), make("mark", {}, words.slice(from, to)));
    end = to;
  }
  node.append(words.slice(end));
  if (sentence.section) node.append(make("span", { className: "facts" }, ` ${sentence.section}`));
  return node;
}
