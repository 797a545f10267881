"use strict";
const rules = JSON.parse(document.body.dataset.rules);
const at = (id) => document.getElementById(id);
const articles = [...document.querySelectorAll("article[data-item]")];
const scales = [...document.querySelectorAll("fieldset[data-dimension]")];
const kept = `srrag-review-${rules.sample}`;
let saved = true;

const radios = (scale) => [...scale.querySelectorAll("input")];
const chosen = (scale) => radios(scale).find((radio) => radio.checked);
const value = (scale) => (chosen(scale) ? Number(chosen(scale).value) : null);

function sheet() {
  const ratings = articles.map((article) => {
    const row = { item: article.dataset.item };
    for (const scale of article.querySelectorAll("fieldset")) row[scale.dataset.dimension] = value(scale);
    return { ...row, comment: article.querySelector("textarea").value.trim() };
  });
  const { layout, sample } = rules;
  return { kind: "srrag review", layout, sample, rater: at("rater").value.trim(), ratings };
}

function fill(content) {
  at("rater").value = content.rater ?? "";
  for (const row of content.ratings ?? []) {
    const article = articles.find((each) => each.dataset.item === row.item);
    if (!article) continue;
    for (const scale of article.querySelectorAll("fieldset")) {
      for (const radio of radios(scale)) radio.checked = String(row[scale.dataset.dimension] ?? "") === radio.value;
    }
    article.querySelector("textarea").value = row.comment ?? "";
  }
  count();
}

function count() {
  const done = scales.filter(chosen).length;
  at("progress").value = done / scales.length;
  at("count").textContent = `${done} of ${scales.length} ratings`;
}

function keep() {
  saved = false;
  try {
    localStorage.setItem(kept, JSON.stringify(sheet()));
  } catch {
    // Without storage (some browsers give files none) ratings last until the page is closed.
  }
}

function forget() {
  // The next rater at this computer finds an empty sheet.
  try {
    localStorage.removeItem(kept);
  } catch {
    // Without storage nothing was kept.
  }
}

function changed() {
  count();
  keep();
}

function go(scale) {
  const radio = chosen(scale) ?? radios(scale)[0];
  radio.focus({ preventScroll: true });
  scale.scrollIntoView({ block: "center" });
}

function fault(text) {
  at("fault").textContent = text;
  at("fault").hidden = !text;
}

function typed(event) {
  const scale = event.target.closest("fieldset");
  if (!scale || event.ctrlKey || event.metaKey || event.altKey) return;
  const gone = event.key === "Backspace" || event.key === "Delete";
  const radio = radios(scale).find((each) => each.value === event.key);
  if (!radio && !gone) return;
  for (const each of radios(scale)) each.checked = each === radio;
  event.preventDefault();
  changed();
  const next = scales[scales.indexOf(scale) + 1];
  if (next && !gone) go(next);
}

function empty(event) {
  const found = radios(event.target.closest("fieldset"));
  for (const radio of found) radio.checked = false;
  found[0].focus();
  changed();
}

function save() {
  const content = sheet();
  if (!content.rater) {
    fault("Please enter your name or initials at the top.");
    at("rater").focus();
    return;
  }
  fault("");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(content, null, 1)], { type: "application/json" }));
  link.download = `review-${rules.sample}-${content.rater.replace(/[^\p{L}\p{N}]+/gu, "-")}.json`;
  link.click();
  URL.revokeObjectURL(link.href);
  if (confirm("Is the file saved? Then this browser forgets the ratings.")) {
    forget();
    saved = true;
  }
}

async function load(event) {
  const [file] = event.target.files;
  event.target.value = "";
  if (!file) return;
  try {
    const content = JSON.parse(await file.text());
    if (content.kind !== "srrag review") throw new Error("it holds no ratings");
    if (content.sample !== rules.sample) throw new Error("it belongs to another sheet");
    fill(content);
    keep();
    fault("");
  } catch (error) {
    fault(`${file.name} was not loaded: ${error.message}`);
  }
}

document.addEventListener("change", (event) => event.target.id !== "load" && changed());
document.addEventListener("input", (event) => event.target.matches("#rater, textarea") && keep());
document.addEventListener("keydown", typed);
document.addEventListener("click", (event) => event.target.matches(".clear") && empty(event));
at("load").addEventListener("change", load);
at("save").addEventListener("click", save);
at("next").addEventListener("click", () => {
  const open = scales.find((scale) => !chosen(scale));
  if (open) go(open);
});
addEventListener("beforeunload", (event) => saved || event.preventDefault());
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => (each.open = true)));
try {
  const draft = localStorage.getItem(kept);
  if (draft) fill(JSON.parse(draft));
} catch {
  forget();
}
count();
