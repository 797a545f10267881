// Renders the text of a window: its Markdown, with marked spans.

import { make } from "./dom.js";

const HEADING = /^\s*#{1,6}\s+/;
const ITEM = /^\s*(?:[-*+•]\s+|(?=\d{1,3}[.)]\s))/;
const ROW = /^\s*\|.*\|\s*$/;
const RULE = /^\s*\|[\s:|-]+\|\s*$/;

// `spans` are stretches [start, end] of the text, in UTF-16 units.
export function windowOf(text, spans) {
  const node = make("div", { className: "window" });
  let open = null; // the list, table or paragraph that the next line goes on
  let from = 0;
  for (const line of text.split("\n")) {
    const to = from + line.length;
    open = drawLine(node, open, { text, line, from, to, spans });
    from = to + 1;
  }
  return node;
}

function drawLine(node, open, { text, line, from, to, spans }) {
  const fill = (into, start, end) => { inline(into, text, start, end, spans); return into; };
  const goOn = (name) => {
    if (open?.localName === name) return open;
    node.append(make(name));
    return node.lastChild;
  };
  if (!line.trim()) return null;
  const heading = HEADING.exec(line);
  if (heading) {
    node.append(fill(make("p", { className: "heading" }), from + heading[0].length, to));
    return null;
  }
  if (ROW.test(line)) {
    const table = goOn("table");
    if (!RULE.test(line)) table.append(cells(fill, line, from));
    return table;
  }
  const item = ITEM.exec(line);
  if (item) {
    const list = goOn("ul");
    const kind = item[0].trim() ? "" : "numbered";
    list.append(fill(make("li", { className: kind }), from + item[0].length, to));
    return list;
  }
  const into = open?.localName === "ul" ? open.lastChild : goOn("p");
  if (into.hasChildNodes()) into.append(" ");
  fill(into, from, to);
  return open?.localName === "ul" ? open : into;
}

function cells(fill, line, from) {
  const row = make("tr");
  let start = line.indexOf("|") + 1;
  for (let end; (end = line.indexOf("|", start)) >= 0; start = end + 1) {
    row.append(fill(make("td"), from + start, from + end));
  }
  return row;
}

function inline(node, text, from, to, spans) {
  const paired = (text.slice(from, to).match(/\*\*/g) ?? []).length > 1;
  let [run, style, bold] = ["", "", false];
  const flush = () => {
    if (!run) return;
    const inner = style.includes("b") ? make("strong", {}, run) : run;
    node.append(style.includes("m") ? make("mark", {}, inner) : inner);
    run = "";
  };
  for (let n = from; n < to; n++) {
    if (paired && text.startsWith("**", n)) { bold = !bold; n++; continue; }
    if (text[n] === "`") continue;
    const now = (bold ? "b" : "") + (spans.some(([a, b]) => a <= n && n < b) ? "m" : "");
    if (now !== style) { flush(); style = now; }
    run += text[n];
  }
  flush();
}

// ---- which stretches ----

// Removes the leading words of a sentence that name the grade of its source.
export const withoutLead = (sentence) =>
  sentence.replace(/^(?:Grade [A-E], [^:]+|Without a grade): /, "");

// Spans of the quotes and `places`, converted from characters to UTF-16 units, and of the answer's
// sentences that the text contains word for word, apart from blanks, case and Markdown.
export function spansOf(item, said, places = []) {
  const units = (count) => [...item.text].slice(0, count).join("").length;
  const found = item.quotes.map((quote) => [units(quote.char_start), units(quote.char_end)])
    .concat(places.map(({ start, end }) => [units(start), units(end)]));
  const [seen, offsets] = folded(item.text);
  for (const sentence of said) {
    const wanted = folded(withoutLead(sentence))[0].trim();
    const start = wanted ? seen.indexOf(wanted) : -1;
    if (start >= 0) found.push([offsets[start], offsets[start + wanted.length - 1] + 1]);
  }
  return found;
}

// Normalises a text for comparison; returns it with each character's offset in the original.
function folded(text) {
  const places = [];
  let out = "";
  for (let n = 0; n < text.length; n++) {
    if (/[*`#|]/.test(text[n])) continue;
    const blank = /\s/.test(text[n]);
    if (blank && (out === "" || out.endsWith(" "))) continue;
    const lower = blank ? " " : text[n].toLowerCase();
    if (lower.length !== 1) continue;
    out += lower;
    places.push(n);
  }
  return [out, places];
}
