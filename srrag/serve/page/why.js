// Explains the evidence: which search found each passage, its ranks, and the term of its grade.

import { make, several } from "./dom.js";

const CHANNELS = {
  dense: "by meaning", sparse: "by words", graph: "by the graph", hyde: "by a passage made up for it",
};
const LISTS = {
  sparse: "by words", dense: "by meaning", graph: "by the graph", hyde: "by made-up passages",
  fused: "merged", coarse: "word by word", filtered: "filtered", uncalibrated: "relevance", "": "final",
};
// Two phrases per step: what it does, and what it has done.
const STEPS = {
  EncodeQuestions: "Question read", EncodeSubQuestions: "Parts of the question read",
  EncodeTexts: "Made-up passages read", FindAnchors: "People, treatment and outcome recognised",
  DecomposeQuestion: "Question taken apart", WriteHyde: "Passages made up to search with",
  WriteRationale: "Reasons thought through", Reformulate: "Question put in other words",
  SearchBranches: "Each wording searched, finds pooled",
  RescoreDense: "Papers compared by meaning", GatherDocuments: "Passages of each paper gathered",
  SummariseDocuments: "Papers summarised", SelectBullets: "Sentences chosen",
  ComposeParagraph: "Answer written",
  IterateRetrieval: "Literature searched", SearchTracks: "Guidelines and studies searched",
  SearchSparse: "Searched by words", SearchDense: "Searched by meaning",
  SearchGraph: "Evidence graph searched", FuseRanks: "Lists merged",
  RerankMaxSim: "Passages compared word by word", RerankBiEncoder: "Passages compared by meaning",
  RerankCrossEncoder: "Passages read against the question", RerankBETR: "Ranked by relevance and grade",
  FilterEvidence: "Passages that do not help removed", SelectEvidence: "Evidence chosen",
  FindSnippets: "Sentences picked",
  ComposeAnswer: "Answer written", Reflect: "Checked whether that is enough",
};

export const stepName = (step) =>
  STEPS[step] ?? step.replace(/([a-z])([A-Z])/g, (_, a, b) => `${a} ${b.toLowerCase()}`);

// Who found a passage, and its rank in each list.
export function reason(why, evidence) {
  return [
    why.found.length ? make("p", {}, "Found ", ...joined(why.found.map(find))) : null,
    make("p", {}, "Ranked ", ranks(why.ranked)),
    why.betr ? betr(why.betr, evidence.grade) : null].filter(Boolean);
}

const joined = (parts) => parts.flatMap((part, n) => (n ? [" · ", part] : [part]));

function find(each) {
  const round = each.round > 1 ? ` in round ${each.round}` : "";
  const where = each.track ? ` among ${each.track}` : "";
  const text = `${CHANNELS[each.channel] ?? each.channel}${where}${round} #${each.rank} (${each.score.toFixed(3)})`;
  const [what, id] = each.community_id && !each.entity_id
    ? ["community", each.community_id] : ["entity", each.entity_id];
  if (!id) return text;
  return make("span", {}, `${text} `, make("a", { href: `graph?${what}=${encodeURIComponent(id)}` }, "in the graph"));
}

function ranks(ranked) {
  return Object.entries(ranked).map(([list, each]) => {
    const name = list.replace(/^hits_?/, "");
    return `${LISTS[name] ?? name} #${each.rank} (${each.score.toFixed(3).replace("-", "−")})`;
  }).join(" → ");
}

function betr({ a, s, u, r }, grade) {
  const sign = u < 0 ? "−" : "+";
  const figure = (value) => value.toFixed(3).replace("-", "−");
  return make("p", {}, "Score with its grade (BETR): ",
    make("span", { className: "sum" },
      `${figure(a)} × ${s < 0 ? `(${figure(s)})` : figure(s)} ${sign} ${figure(Math.abs(u))} = ${figure(r)}`),
    `, which is scale × relevance ${sign} the term of grade ${grade || "E, as none is known"}`);
}

export function showSteps(list, trace) {
  list.replaceChildren(...trace.map((step) => make("li", {}, stepName(step.step),
    make("span", { className: "quiet" },
      [` ${step.ms.toFixed(1)} ms`, step.items === undefined || step.items === null ? ""
        : several(step.items, "item")].filter(Boolean).join(" · ")))));
}
