// The graph page: search for an entity or community, and a drawing of its neighbourhood.

import { at, fail, make, read, several, short, withKey } from "./dom.js";

const given = new URLSearchParams(location.search);
const words = (type) => type.replace(/_/g, " ").replace(/([a-z])([A-Z])/g, "$1 $2");

async function start() {
  try {
    if (given.has("entity") || given.has("community")) await draw();
    else await begin("");
    fail(null);
  } catch (error) {
    fail(error);
    at("facts").textContent = "";
    if (!at("keys").hidden) return;
    await begin("").catch(fail);
  }
}

// Loads the drawing script, which reads its content from the page.
async function draw() {
  const asked = new URLSearchParams([...given].filter(([name]) =>
    ["entity", "community", "hops", "max_nodes"].includes(name)));
  at("facts").textContent = "Drawing …";
  const content = await read(`v1/graph_view?${asked}`);
  document.title = `${content.title} · SR-RAG`;
  at("content").textContent = JSON.stringify(content);
  document.querySelector("main").hidden = false;
  at("begin").hidden = true;
  if (given.has("entity")) offerReach();
  document.body.append(make("script", { src: "drawing.js" }));
}

// Offers drawings with one, two or three hops around the entity.
function offerReach() {
  const now = Number(given.get("hops") ?? 1);
  at("reach").replaceChildren("Within ", ...[1, 2, 3].map((hops) => {
    const asked = new URLSearchParams({ entity: given.get("entity"), hops });
    const link = make("a", { href: `graph?${asked}` }, String(hops));
    if (hops === now) link.setAttribute("aria-current", "true");
    return link;
  }), " steps");
}

// ---- where to begin ----

async function begin(text) {
  const { entities, communities } = await read(`v1/graph_view/names?text=${encodeURIComponent(text)}`);
  const lists = make("div", { className: "lists" });
  const add = (title, items) => items.length && lists.append(
    make("div", {}, make("h2", {}, title), make("ul", {}, ...items)));
  if (text) add(`Entities like “${text}”`, entities.map((each) => entity(each, true)));
  const types = text ? [] : [...new Set(entities.map((each) => each.type))];
  for (const type of types) {
    add(words(type), entities.filter((each) => each.type === type).map((each) => entity(each, false)));
  }
  add("Largest communities", communities.map(community));
  if (!entities.length) lists.append(make("p", {}, "There is no such entity."));
  at("begin").replaceChildren(lists);
  at("begin").hidden = false;
}

const entity = ({ id, name, type, relations }, showType) => make("li", {},
  make("a", { href: `graph?entity=${encodeURIComponent(id)}`, title: name }, short(name, 90)),
  make("span", {}, ` ${showType ? `${words(type)}, ` : ""}${several(relations, "relation")}`));

const community = ({ id, names, size }) => make("li", {},
  make("a", { href: `graph?community=${encodeURIComponent(id)}` }, short(names.join(" · "), 120)),
  make("span", {}, ` ${several(size, "entity", "entities")}`));

let typing = 0;
at("name").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    const text = at("name").value.trim();
    document.querySelector("main").hidden = Boolean(text) || !at("content").textContent;
    if (text || !at("content").textContent) begin(text).then(() => fail(null), fail);
    else at("begin").hidden = true;
  }, 250);
});
at("search").addEventListener("submit", (event) => {
  event.preventDefault();
  at("begin").querySelector("a")?.focus();
});
withKey(start);
start();
