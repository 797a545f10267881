// Where the reader is: the address of an answer, back and forward, and what was asked in this tab.

import { at, make } from "./dom.js";

const KEY = "srrag-asked"; // in the tab's session storage: a question may be about a patient
const MAX_PAST = 20;

export const current = () => {
  const said = new URLSearchParams(location.search);
  return { question: said.get("q") ?? "", pipeline: said.get("pipeline") ?? "", version: said.get("v") ?? "" };
};

export function address({ question, pipeline, version }) {
  const said = new URLSearchParams({ q: question });
  if (pipeline) said.set("pipeline", pipeline);
  if (version) said.set("v", version.slice(0, 8));
  return `${location.pathname}?${said}`;
}

// Makes the address that of an answer; a new entry only for another question. Its entry in the
// history keeps the turns that a follow-up leans on, until it is answered and stands alone.
export function moveTo(place, instead = false, turns = []) {
  const kind = instead || current().question === place.question ? "replaceState" : "pushState";
  history[kind](turns, "", address(place));
  document.title = place.question ? `${place.question} · SR-RAG` : "SR-RAG";
}

const past = () => JSON.parse(sessionStorage.getItem(KEY) ?? "[]");

export function remember(question) {
  const others = past().filter((each) => each !== question);
  sessionStorage.setItem(KEY, JSON.stringify([question, ...others].slice(0, MAX_PAST)));
}

export function showPast(ask) {
  const asked = past();
  at("asked-before").hidden = !asked.length;
  at("past").replaceChildren(...asked.map((question) => {
    const button = make("button", { type: "button", dir: "auto" }, question);
    button.addEventListener("click", () => ask(question));
    return make("li", {}, button);
  }));
  at("forget").onclick = () => { sessionStorage.removeItem(KEY); showPast(ask); };
}
