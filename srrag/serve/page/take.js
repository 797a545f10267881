// What a reader takes along: the answer as text, its link, a print, and its references as files.

import { at } from "./dom.js";
import { citedOf } from "./evidence.js";

let urls = [];

export function offer(reply, link) {
  const { text, ris, bibtex } = reply.clinical;
  urls.forEach((url) => URL.revokeObjectURL(url));
  urls = [file("ris", ris, "application/x-research-info-systems"), file("bibtex", bibtex, "application/x-bibtex")];
  at("copy").onclick = () => copy(text, "The answer is copied.");
  at("link").onclick = () => copy(new URL(link, location.href).href, "The link is copied.");
  at("print").onclick = () => print();
  at("as-graph").href = graphOf(reply);
  at("taken").textContent = "";
}

// A reply as a turn of a conversation: what it says, and the papers that it cites as a chat lists them.
export function turnOf(reply) {
  const cited = citedOf(reply);
  const lines = reply.evidence.filter((item) => cited.has(item.number)).map((item) => {
    const [source, year] = [item.pmid ? `PMID ${item.pmid}` : item.source_id, item.year ? `, ${item.year}` : ""];
    return `[${item.number}] grade ${item.grade || "–"}: ${item.title} (${source}${year})`;
  });
  const missing = reply.missing ? `\n\nMissing: ${reply.missing}` : "";
  const sources = lines.length ? `\n\nSources:\n${lines.join("\n")}` : "";
  return { question: reply.question, answer: `${reply.answer}${missing}${sources}`.slice(0, 20000) };
}

// The graph of the answer's own papers, cited ones first.
function graphOf(reply) {
  const cited = citedOf(reply);
  const papers = [...reply.evidence].sort((a, b) => cited.has(b.number) - cited.has(a.number));
  const documents = [...new Set(papers.map((item) => item.doc_id))].slice(0, 20);
  const said = new URLSearchParams([["q", reply.question], ...documents.map((id) => ["document", id])]);
  return `graph?${said}`;
}

function file(id, content, type) {
  const url = URL.createObjectURL(new Blob([content], { type: `${type};charset=utf-8` }));
  at(id).href = url;
  at(id).hidden = !content;
  return url;
}

async function copy(text, told) {
  try {
    await navigator.clipboard.writeText(text);
    at("taken").textContent = told;
  } catch {
    at("taken").textContent = "This browser did not allow it: use its own copy.";
  }
}

// A print shows what is folded on the screen.
addEventListener("beforeprint", () => {
  for (const node of document.querySelectorAll("#whole")) node.open = true;
});
