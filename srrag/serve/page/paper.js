// The paper beside the findings: its passage with what is said marked, its status, why it is here, and a link out.

import { make } from "./dom.js";
import { badge, chips, figures, gradeLine, placesIn, source, standingMark, titleOf } from "./evidence.js";
import { spansOf, windowOf } from "./window.js";
import { reason } from "./why.js";

const WIDE = matchMedia("(min-width: 1024px)");

// Shows a piece of evidence, beside the table or, on a narrow window, beneath the row it is of.
export function showPaper(aside, reply, number, finding, asker) {
  const item = reply.evidence.find((each) => each.number === number);
  if (!item) return;
  const reading = reply.clinical?.papers.find((each) => each.number === number) ?? {};
  const why = reply.why?.find((each) => each.unit_id === item.unit_id);
  const said = reply.sentences.filter((each) => each.citations.includes(number)).map((each) => each.text);
  const places = finding?.end ? [finding] : placesIn(reply, number);
  const back = make("button", { type: "button", className: "back plain" }, "↑ Back");
  back.addEventListener("click", () => goBack(asker));
  aside.replaceChildren(...[
    make("p", { className: "facts" }, badge(item.grade, Boolean(reading.claims)),
      ` ${item.study || "kind of study not known"}${item.year ? `, ${item.year}` : ""}`),
    make("h3", { dir: "auto" }, standingMark(item), titleOf(item)),
    reading.claims ? make("p", { className: "claims" }, `It ${reading.claims}.`) : null,
    chips(item),
    make("details", { open: true }, make("summary", {}, "The whole passage"),
      item.section && !item.text.trimStart().startsWith("#") ? make("p", { className: "section" }, item.section) : null,
      windowOf(item.text, spansOf(item, said, places)), figures(item)),
    reading.because ? make("p", { className: "because" }, reading.because) : null,
    source(item), gradeLine(item),
    why ? make("details", { className: "ranks" }, make("summary", {}, "Ranks and scores"), ...reason(why, item)) : null,
    asker ? back : null].filter(Boolean));
  aside.onkeydown = (event) => { if (event.key === "Escape" && asker) goBack(asker); };
  place(aside, asker);
}

// Puts the paper where there is room for it, and marks the row that it is of.
function place(aside, asker) {
  for (const row of document.querySelectorAll("tr.shown")) row.classList.remove("shown");
  document.getElementById("paper-row")?.remove();
  const row = asker?.closest("tr");
  row?.classList.add("shown");
  if (WIDE.matches || !row) {
    document.getElementById("found").append(aside);
  } else {
    const cell = make("td", { colSpan: 3 }, aside);
    row.after(make("tr", { id: "paper-row" }, cell));
  }
  aside.hidden = false;
}

function goBack(asker) {
  asker.scrollIntoView({ block: "center" });
  asker.focus();
}
