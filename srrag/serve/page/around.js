// All relations of a part of the graph as a drawing: around an entity, or of a community.

import { at, during, fail, make, read, withKey } from "./dom.js";

const given = new URLSearchParams(location.search);

async function start() {
  try {
    await draw();
    fail(null);
  } catch (error) {
    fail(error);
    at("facts").textContent = "";
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
  if (given.has("entity")) offerReach();
  await during(new Promise((done, failed) => {
    document.body.append(make("script", { src: "drawing.js", onload: done, onerror: failed }));
  }));
}

// Offers drawings with one, two or three hops around the entity.
function offerReach() {
  const now = Number(given.get("hops") ?? 1);
  at("reach").replaceChildren("Within ", ...[1, 2, 3].map((hops) => {
    const asked = new URLSearchParams({ entity: given.get("entity"), hops });
    const link = make("a", { href: `drawing?${asked}` }, String(hops));
    if (hops === now) link.setAttribute("aria-current", "true");
    return link;
  }), " steps");
}

withKey(start);
start();
