// The graph page: where to begin, or a walk through the studies of an answer or of a concept.

import { afterTyping, at, fail, make, read, several, short, withKey } from "./dom.js";
import { showWalk } from "./walk.js";

const given = new URLSearchParams(location.search);
const COLUMNS = ["Populations and conditions", "Interventions", "Outcomes"];

async function start() {
  try {
    const wanted = given.has("entity") || given.has("document");
    if (wanted) await walk();
    else await begin("");
    fail(null);
  } catch (error) {
    fail(error);
    if (at("keys").hidden) await begin("").catch(fail);
  }
}

async function walk() {
  const asked = new URLSearchParams([...given].filter(([name]) => name === "entity" || name === "document"));
  if (given.has("q")) asked.set("text", given.get("q"));
  const content = await read(`v1/graph_walk?${asked}`);
  document.title = `${content.title} · SR-RAG`;
  at("begin").hidden = true;
  at("walk").hidden = false;
  if (given.has("q")) {
    at("back").replaceChildren(make("a", { href: `./?q=${encodeURIComponent(given.get("q"))}` }, "← The answer"));
    at("back").hidden = false;
  }
  tellBar(content.bar);
  showWalk(content);
}

function tellBar(text) {
  at("bar-text").textContent = text;
  at("bar").hidden = false;
}

// ---- where to begin ----

let turn = 0; // a later text makes an earlier one's names stale

async function begin(text) {
  const own = ++turn;
  const { bar, entities } = await read(`v1/graph_view/names?text=${encodeURIComponent(text)}`);
  if (own !== turn) return;
  tellBar(bar);
  const lists = make("div", { className: "lists" });
  const add = (title, items) => items.length && lists.append(
    make("section", {}, make("h2", {}, title), make("ul", {}, ...items)));
  if (text) add(`Like “${text}”`, entities.map(concept));
  else COLUMNS.forEach((name, n) => add(name, entities.filter((each) => each.column === n).map(concept)));
  if (!entities.length) {
    lists.append(make("p", {}, text ? `Nothing that is shown here is called “${text}”.`
      : "No name of this graph clears the bar below."));
  }
  const heading = text ? [] : [make("h1", {}, "The evidence graph"), make("p", { className: "quiet" },
    "From whom, to what is done, to what comes of it. Begin at what most papers name, or find a name.")];
  at("begin").replaceChildren(...heading, lists);
  at("begin").hidden = false;
  at("walk").hidden = true;
}

const concept = ({ id, name, studies, aliases }) => make("li", {},
  make("a", { href: `graph?entity=${encodeURIComponent(id)}` }, name),
  make("span", { className: "facts" }, ` ${several(studies, "paper")}`),
  aliases.length ? make("span", { className: "also" }, `also ${short(aliases.join(", "), 80)}`) : null);

at("name").addEventListener("input", afterTyping(() => {
  const text = at("name").value.trim();
  const standing = !text && (given.has("entity") || given.has("document"));
  at("walk").hidden = !standing;
  at("begin").hidden = standing;
  if (standing) turn += 1;
  else begin(text).then(() => fail(null), fail);
}));
at("search").addEventListener("submit", (event) => {
  event.preventDefault();
  at("begin").querySelector("a")?.focus();
});
withKey(start);
start();
