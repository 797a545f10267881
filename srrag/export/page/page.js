"use strict";
// Every text of the content is data: it enters the page through textContent alone.
const content = JSON.parse(document.getElementById("content").textContent);
const { nodes, edges, documents } = content;
const GRADES = ["A", "B", "C", "D", "E", "none"];
const MEANING = {
  A: "guideline or consensus", B: "systematic review", C: "randomised trial", D: "cohort study",
  E: "other study", none: "design not told",
};
const GRADE_FILL = { A: "#08519c", B: "#2f7ab8", C: "#7ab6dd", D: "#c3dcee", E: "#e4e4e4", "": "#ffffff" };
// Okabe and Ito's colours, which people with colour blindness tell apart; shapes tell the rest.
const STYLES = {
  Document: ["#ffffff", "square"], Population: ["#56b4e9", "circle"], Condition: ["#d55e00", "circle"],
  Intervention: ["#009e73", "circle"], Outcome: ["#cc79a7", "circle"], Timepoint: ["#e69f00", "circle"],
  Recommendation: ["#0072b2", "circle"], Comparator: ["#009e73", "diamond"], Arm: ["#56b4e9", "diamond"],
  Device: ["#f0e442", "diamond"], Exposure: ["#009e73", "triangle"], AdverseEvent: ["#d55e00", "triangle"],
  Contraindication: ["#cc79a7", "triangle"],
};
const SPARE = ["#0072b2", "#f0e442", "#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#d55e00"];
const VALUES = "attribute values";
const typeOf = (node) => (node.attribute ? VALUES : node.type);
const counts = new Map();
nodes.forEach((node) => counts.set(typeOf(node), (counts.get(typeOf(node)) || 0) + 1));
const known = Object.keys(STYLES);
const place = (type) => (type === VALUES ? 99 : known.includes(type) ? known.indexOf(type) : 50);
const types = [...counts.keys()].sort((a, b) => place(a) - place(b) || (a < b ? -1 : 1));
types.filter((type) => place(type) === 50).forEach((type, n) => {
  STYLES[type] = [SPARE[n % SPARE.length], n < SPARE.length ? "triangle" : "diamond"];
});
STYLES[VALUES] = ["", "circle"];

const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);
function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  Object.assign(made, properties);
  made.append(...children.filter((child) => child !== null));
  return made;
}
function shape(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
function outline(form, r) {
  if (form === "square") return `M${-r},${-r}H${r}V${r}H${-r}Z`;
  if (form === "diamond") return `M0,${-1.25 * r}L${1.25 * r},0L0,${1.25 * r}L${-1.25 * r},0Z`;
  if (form === "triangle") return `M0,${-1.25 * r}L${1.15 * r},${0.85 * r}L${-1.15 * r},${0.85 * r}Z`;
  return `M${-r},0A${r},${r} 0 1,1 ${r},0A${r},${r} 0 1,1 ${-r},0Z`;
}
function glyph(type) {
  const [fill, form] = STYLES[type];
  const path = shape("path", { d: outline(form, 6), class: type === VALUES ? "value" : "" });
  if (fill) path.setAttribute("fill", fill);
  return shape("svg", { viewBox: "-8 -8 16 16", "aria-hidden": "true" }, path);
}
const words = (text) => text.replace(/_/g, " ").replace(/([a-z])([A-Z])/g, "$1 $2");
const several = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
const radiusOf = (node) => node.type === "Document" ? Math.max(10, 0.8 * node.r)
  : node.attribute ? Math.min(node.r, 5) : node.r;
const nameOf = (node) => (node.attribute ? `${words(node.type)}: ${node.name}` : node.name);
const short = (text, size) => (text.length > size ? text.slice(0, size - 1).trimEnd() + "…" : text);

const neighbours = nodes.map(() => []);
edges.forEach((edge, number) => {
  neighbours[edge.source].push({ edge: number, node: edge.target, out: true });
  neighbours[edge.target].push({ edge: number, node: edge.source, out: false });
});

// ---- the drawing ----
const graph = byId("graph");
const world = byId("world");
const linkMarks = edges.map((edge, number) => {
  const [a, b] = [nodes[edge.source], nodes[edge.target]];
  const ends = { x1: a.x, y1: a.y, x2: b.x, y2: b.y };
  const mark = shape("g", { class: "link" }, shape("line", { ...ends, class: "seen" }),
    shape("line", { ...ends, class: "reach" }));
  mark.addEventListener("click", () => choose({ edge: number }));
  hint(mark, () => `${short(nameOf(a), 60)} – ${edge.relation} – ${short(nameOf(b), 60)}`);
  byId("links").append(mark);
  return mark;
});
const pointMarks = nodes.map((node, number) => {
  const [fill, form] = STYLES[typeOf(node)];
  const isDocument = node.type === "Document";
  const path = shape("path", { d: outline(form, radiusOf(node)) });
  if (isDocument) path.setAttribute("fill", GRADE_FILL[node.grade] || GRADE_FILL[""]);
  else if (fill) path.setAttribute("fill", fill);
  const mark = shape("g", {
    class: `point${node.attribute ? " value" : ""}${node.centre ? " centre" : ""}`,
    transform: `translate(${node.x},${node.y})`, tabindex: "0", role: "button",
    "aria-label": `${words(typeOf(node))}: ${nameOf(node)}, ${several(node.count, "mention")}`,
  }, path);
  if (isDocument) {
    const dark = ["A", "B"].includes(node.grade);
    const letter = shape("text", { "font-size": "12", fill: dark ? "#fff" : "#10202e" });
    letter.textContent = node.grade || "–";
    mark.append(letter);
  }
  mark.dataset.node = number;
  mark.addEventListener("click", () => choose({ node: number }));
  mark.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose({ node: number }); }
  });
  hint(mark, () => `${nameOf(node)} (${words(typeOf(node))}, ${several(node.count, "mention")})`);
  byId("points").append(mark);
  return mark;
});
const nameMarks = nodes.map((node) => {
  const mark = shape("text", { class: node.attribute ? "value" : "" });
  mark.textContent = short(nameOf(node), 30);
  byId("names").append(mark);
  return mark;
});
const NAME_SIZE = 12;
// By the fonts that this browser draws with; half of a name's outline is 2 pixels at most.
const brush = document.createElement("canvas").getContext("2d");
const nameBoxes = nameMarks.map((mark) => {
  const { fontStyle, fontWeight, fontFamily } = getComputedStyle(mark);
  brush.font = `${fontStyle} ${fontWeight} ${NAME_SIZE}px ${fontFamily}`;
  const told = brush.measureText(mark.textContent);
  return { half: told.width / 2 + 2, up: told.fontBoundingBoxAscent, down: told.fontBoundingBoxDescent };
});

// ---- what is chosen and hidden ----
const hidden = new Set();
let chosen = {};
function choose(choice) {
  chosen = choice;
  const near = new Set();
  const ends = "edge" in chosen ? [edges[chosen.edge].source, edges[chosen.edge].target] : [];
  if ("node" in chosen) {
    near.add(chosen.node);
    neighbours[chosen.node].forEach((item) => near.add(item.node));
  }
  ends.forEach((end) => near.add(end));
  pointMarks.forEach((mark, n) => {
    mark.classList.toggle("chosen", chosen.node === n);
    mark.classList.toggle("away", near.size > 0 && !near.has(n));
  });
  linkMarks.forEach((mark, n) => {
    const edge = edges[n];
    const touches = edge.source === chosen.node || edge.target === chosen.node;
    mark.classList.toggle("near", touches);
    mark.classList.toggle("chosen", chosen.edge === n);
    mark.classList.toggle("away", near.size > 0 && !touches && chosen.edge !== n);
  });
  drawNames();
  drawPanel();
}
function hide(type) {
  if (!hidden.delete(type)) hidden.add(type);
  nodes.forEach((node, n) => pointMarks[n].classList.toggle("gone", hidden.has(typeOf(node))));
  edges.forEach((edge, n) => linkMarks[n].classList.toggle("gone",
    hidden.has(typeOf(nodes[edge.source])) || hidden.has(typeOf(nodes[edge.target]))));
  drawNames();
}

// ---- names: constant size on screen, the important first, none over another ----
const view = { x: 0, y: 0, scale: 1 };
const importance = nodes.map((_, n) => n).sort((a, b) =>
  nodes[b].centre - nodes[a].centre || nodes[a].attribute - nodes[b].attribute
  || neighbours[b].length - neighbours[a].length || nodes[b].count - nodes[a].count);
function drawNames() {
  const stage = graph.getBoundingClientRect();
  const zoom = byId("zoom").getBoundingClientRect();
  const near = new Set("node" in chosen
    ? [chosen.node, ...neighbours[chosen.node].map((item) => item.node)]
    : "edge" in chosen ? [edges[chosen.edge].source, edges[chosen.edge].target] : []);
  const visible = (n) => !hidden.has(typeOf(nodes[n])) && (near.size === 0 || near.has(n));
  const spots = nodes.map((node) => ({
    x: node.x * view.scale + view.x, y: node.y * view.scale + view.y, r: radiusOf(node) * view.scale,
  }));
  const taken = [[zoom.left - stage.left, zoom.top - stage.top, zoom.right - stage.left, zoom.bottom - stage.top]];
  nodes.forEach((_, n) => {
    const { x, y, r } = spots[n];
    if (visible(n)) taken.push([x - r, y - r, x + r, y + r]);
  });
  const free = (box) => taken.every((other) =>
    box[2] < other[0] || other[2] < box[0] || box[3] < other[1] || other[3] < box[1]);
  const order = [...importance].sort((a, b) => (b === chosen.node) - (a === chosen.node));
  for (const n of order) {
    const [mark, { x, y, r }] = [nameMarks[n], spots[n]];
    const { half, up, down } = nameBoxes[n];
    const [beside, level] = [r + half + 3, y + (up - down) / 2];
    const places = [[x, y + r + up + 1], [x, y - r - down - 2], [x + beside, level], [x - beside, level]];
    const box = ([cx, cy]) => [cx - half, cy - up, cx + half, cy + down];
    const fits = (spot) => box(spot)[0] > 2 && box(spot)[2] < stage.width - 2
      && box(spot)[1] > 0 && box(spot)[3] < stage.height;
    const open = places.filter((spot) => free(box(spot)));
    const found = open.find(fits) || (n === chosen.node ? places[0] : null);
    mark.classList.toggle("gone", !visible(n) || !found);
    if (!visible(n) || !found) continue;
    taken.push(box(found));
    mark.setAttribute("font-size", NAME_SIZE / view.scale);
    mark.setAttribute("x", (found[0] - view.x) / view.scale);
    mark.setAttribute("y", (found[1] - view.y) / view.scale);
    mark.style.strokeWidth = `${3.2 / view.scale}px`;
  }
}

// ---- moving about ----
function draw() {
  world.setAttribute("transform", `translate(${view.x},${view.y}) scale(${view.scale})`);
  drawNames();
}
function showAll() {
  const box = graph.getBoundingClientRect();
  const shown = nodes.length ? nodes : [{ x: 0, y: 0, r: 1 }];
  const [left, right] = [Math.min(...shown.map((n) => n.x)), Math.max(...shown.map((n) => n.x))];
  const [top, bottom] = [Math.min(...shown.map((n) => n.y)), Math.max(...shown.map((n) => n.y))];
  const [width, height] = [Math.max(60, box.width - 110), Math.max(60, box.height - 90)];
  view.scale = Math.min(1.6, width / Math.max(1, right - left), height / Math.max(1, bottom - top));
  view.x = box.width / 2 - (view.scale * (left + right)) / 2;
  view.y = box.height / 2 - 6 - (view.scale * (top + bottom)) / 2;
  draw();
}
function zoom(factor, x, y) {
  const scale = Math.min(8, Math.max(0.05, view.scale * factor));
  view.x = x - ((x - view.x) * scale) / view.scale;
  view.y = y - ((y - view.y) * scale) / view.scale;
  view.scale = scale;
  draw();
}
const fingers = new Map();
let travelled = 0;
const inside = (event) => {
  const box = graph.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};
graph.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom(Math.exp(-event.deltaY * 0.0015), ...inside(event));
}, { passive: false });
graph.addEventListener("pointerdown", (event) => {
  fingers.set(event.pointerId, inside(event));
  travelled = 0;
});
graph.addEventListener("pointermove", (event) => {
  if (!fingers.has(event.pointerId)) return;
  const [before, now] = [fingers.get(event.pointerId), inside(event)];
  const other = [...fingers.entries()].find(([id]) => id !== event.pointerId);
  fingers.set(event.pointerId, now);
  travelled += Math.hypot(now[0] - before[0], now[1] - before[1]);
  if (travelled < 4) return;
  graph.classList.add("moving");
  if (other) {
    const [x, y] = other[1];
    zoom(Math.hypot(now[0] - x, now[1] - y) / Math.max(1, Math.hypot(before[0] - x, before[1] - y)), x, y);
  } else {
    view.x += now[0] - before[0];
    view.y += now[1] - before[1];
    draw();
  }
});
for (const name of ["pointerup", "pointercancel", "pointerleave"]) {
  graph.addEventListener(name, (event) => {
    fingers.delete(event.pointerId);
    graph.classList.remove("moving");
  });
}
graph.addEventListener("click", (event) => {
  if (travelled >= 4) { event.stopPropagation(); return; }
}, true);
graph.addEventListener("click", (event) => { if (event.target === graph) choose({}); });
document.addEventListener("keydown", (event) => { if (event.key === "Escape") choose({}); });
byId("zoom").addEventListener("click", (event) => {
  const factor = Number(event.target.dataset.zoom);
  const box = graph.getBoundingClientRect();
  if (factor) zoom(factor, box.width / 2, box.height / 2);
  else showAll();
});
function hint(mark, text) {
  const tip = byId("tip");
  mark.addEventListener("pointermove", (event) => {
    if (event.pointerType === "touch") return;
    const [x, y] = inside(event);
    tip.textContent = text();
    tip.hidden = false;
    const width = graph.getBoundingClientRect().width;
    tip.style.left = `${Math.max(4, Math.min(x + 14, width - tip.offsetWidth - 6))}px`;
    tip.style.top = `${y + 16}px`;
  });
  mark.addEventListener("pointerleave", () => { tip.hidden = true; });
}

// ---- the panel ----
const badge = (grade) => element("span", {
  className: `badge ${grade || "none"}`, textContent: grade || "–",
  title: `Evidence grade ${grade || "unknown"}: ${MEANING[grade || "none"]}`,
});
function tally(grades) {
  const items = GRADES.map((grade, n) => [grade, grades[n]]).filter(([, count]) => count);
  return element("div", { className: "tally" }, ...items.map(([grade, count]) =>
    element("span", {}, badge(grade === "none" ? "" : grade),
      `${several(count, "document")}`)));
}
const STANDINGS = {
  copy: "Another copy", deleted: "Deleted", retracted: "Retracted", concern: "Expression of concern",
  superseded: "Superseded", corrected: "Corrected", preprint: "Preprint",
  retraction_notice: "Retraction notice", concern_notice: "Notice of concern",
  correction_notice: "Correction notice",
};
function mentionList(item, heading, sources = true) {
  const shown = [];
  let last = -1;
  for (const mention of item.mentions) {
    const source = documents[mention.document];
    const head = [];
    if (sources && mention.document !== last) {
      const where = [source.pmid ? `PMID ${source.pmid}` : source.source_id, source.year || null];
      head.push(element("div", { className: "source" }, badge(source.grade),
        STANDINGS[source.standing]
          ? element("span", { className: "standing", textContent: STANDINGS[source.standing] }) : null,
        element("span", { textContent: source.title || source.source_id })),
        element("div", { className: "where", textContent: where.filter(Boolean).join(" · ") }));
    }
    const [before, text, after] = mention.quote;
    const quoted = element("blockquote", {}, before, element("mark", { textContent: text }), after);
    if (mention.section) quoted.append(element("span", { className: "section", textContent: mention.section }));
    const same = mention.document === last ? " same" : "";
    shown.push(element("article", { className: `mention${same}` }, ...head, quoted));
    last = mention.document;
  }
  const more = item.more
    ? element("p", { className: "quiet", textContent: `and ${several(item.more, "sentence")} more` }) : null;
  return [element("h3", { textContent: heading }), ...shown, more];
}
function row(node, relation, count, open) {
  const button = element("button", { type: "button", onclick: open }, glyph(typeOf(node)),
    relation ? element("span", { className: "relation", textContent: relation }) : null,
    element("span", { className: "name", textContent: nameOf(node) }),
    node.type === "Document" ? badge(node.grade) : null,
    count ? element("span", { className: "count", textContent: count }) : null);
  return element("li", {}, button);
}
const back = () => element("button", {
  type: "button", className: "back", textContent: "← Overview", onclick: () => choose({}),
});
function overview() {
  const ranked = importance.filter((n) => !nodes[n].attribute)
    .sort((a, b) => nodes[b].count - nodes[a].count);
  const entities = ranked.filter((n) => nodes[n].type !== "Document");
  const papers = ranked.filter((n) => nodes[n].type === "Document")
    .sort((a, b) => (nodes[a].grade || "Z") < (nodes[b].grade || "Z") ? -1 : 1);
  const list = (items) => element("ul", { className: "rows" }, ...items.map((n) =>
    row(nodes[n], "", nodes[n].type === "Document" ? "" : nodes[n].count, () => choose({ node: n }))));
  const legend = GRADES.slice(0, 5).map((grade) =>
    element("span", {}, badge(grade), MEANING[grade]));
  return [
    element("p", { className: "quiet", textContent:
      "Choose a point or a line to read the sentences that it was drawn from." }),
    element("h3", { textContent: "Evidence grades" }),
    element("div", { className: "tally" }, ...legend),
    ...(entities.length ? [element("h3", { textContent: "Entities by mentions" }), list(entities)] : []),
    ...(papers.length ? [element("h3", { textContent: "Documents by grade" }), list(papers)] : []),
    element("p", { className: "quiet", textContent:
      "Drawn from the literature by a machine: read the sources. Not medical advice." }),
  ];
}
function sourceLine(node) {
  const mention = node.mentions[0];
  if (!mention) return "";
  const source = documents[mention.document];
  return [source.pmid ? `PMID ${source.pmid}` : source.source_id, source.year || null]
    .filter(Boolean).join(" · ");
}
function nodePanel(node, number) {
  const isDocument = node.type === "Document";
  const links = neighbours[number].map((item) => row(nodes[item.node],
    `${item.out ? "" : "← "}${edges[item.edge].relation}${item.out ? " →" : ""}`, "",
    () => choose({ node: item.node })));
  return [
    back(),
    element("h2", { textContent: nameOf(node) }),
    element("p", { className: "kind" }, isDocument ? badge(node.grade) : null, isDocument
      ? ` Document · ${MEANING[node.grade || "none"]}`
      : `${words(node.type)} · ${several(node.count, "mention")} in ${several(node.num_documents, "document")}`),
    isDocument ? element("p", { className: "kind", textContent: sourceLine(node) }) : tally(node.grades),
    ...mentionList(node, isDocument ? "Sentences used" : "Mentions, best evidence first", !isDocument),
    ...(links.length ? [element("h3", { textContent: "Relations shown here" }),
      element("ul", { className: "rows" }, ...links)] : []),
  ];
}
function edgePanel(edge) {
  const [a, b] = [nodes[edge.source], nodes[edge.target]];
  return [
    back(),
    element("h2", { textContent: edge.relation }),
    element("ul", { className: "rows" }, row(a, "", "", () => choose({ node: edge.source })),
      row(b, "→", "", () => choose({ node: edge.target }))),
    element("p", { className: "quiet", textContent:
      `${several(edge.count, "mention")} · confidence of the extraction ${edge.confidence.toFixed(2)}` }),
    ...mentionList(edge, "Sentences, best evidence first"),
  ];
}
function drawPanel() {
  const parts = "node" in chosen ? nodePanel(nodes[chosen.node], chosen.node)
    : "edge" in chosen ? edgePanel(edges[chosen.edge]) : overview();
  const panel = byId("panel");
  panel.replaceChildren(...parts.filter((part) => part !== null));
  panel.scrollTop = 0;
}

// ---- head and legend ----
document.querySelector("h1").textContent = content.title;
const shownEntities = nodes.filter((node) => !node.attribute && node.type !== "Document").length;
byId("facts").textContent = [
  several(shownEntities, "entity").replace(/entitys$/, "entities"),
  several(edges.length, "relation"), `sentences from ${several(documents.length, "document")}`,
  content.total > nodes.length
    ? `shown: the ${nodes.length} most central of ${content.total.toLocaleString("en")} nodes` : null,
  content.note,
].filter(Boolean).join(" · ");
for (const type of types) {
  const button = element("button", { type: "button" }, glyph(type), `${words(type)} ${counts.get(type)}`);
  button.setAttribute("aria-pressed", "true");
  button.addEventListener("click", () => {
    hide(type);
    button.setAttribute("aria-pressed", String(!hidden.has(type)));
  });
  byId("legend").append(button);
}
drawPanel();
showAll();
let size = [innerWidth, innerHeight];
addEventListener("resize", () => {
  if (size[0] !== innerWidth) showAll();
  size = [innerWidth, innerHeight];
});
