// What studies found, across papers, from the record of /v1/synthesis.

import { at, make, read, several, short } from "./dom.js";
import { badge, citedOf, markedTitle, placesIn, source, standingMark } from "./evidence.js";
import { cell } from "./reading.js";
import { spansOf, windowOf } from "./window.js";

const FIRST = 3; // comparisons that stand open
const quiet = (text) => make("p", { className: "quiet", dir: "auto" }, text);
const says = (text) => make("span", { className: "says" }, text);
const list = (values) => values.filter(Boolean).join("; ");
const figure = (value) => String(Number(value.toPrecision(3))).replace("-", "−");
const ends = (pair) => `${figure(pair[0])} to ${figure(pair[1])}`;
const folded = (told, ...content) => make("details", {}, make("summary", {}, told), ...content);

// Findings of a model up to which they are gathered without a click: a server reads them all once.
const MOST = 100_000;
const gathered = new WeakMap(); // what was gathered, by reply
let stored = 0; // findings that a model read of this library
let shown = null; // the reply that all this is about

export const findingsHere = (count) => { stored = count; };

// Offers the studies of an answer's question. Beside a model's answer stands at once what a model's
// findings say across them; rules would read every paper for it, so that waits for a click.
export function offerAcross(reply) {
  shown = reply;
  for (const id of ["comparisons", "in-short"]) at(id).replaceChildren();
  at("gathered").textContent = "";
  at("gather").hidden = false;
  at("gather").disabled = false;
  at("gather").onclick = () => open(reply);
  if (reply.model !== "rules" && reply.state !== "not" && stored && stored <= MOST) {
    whenMade(reply, (made) => at("in-short").replaceChildren(...inShort(made, reply)));
  }
}

function open(reply) {
  const place = at("comparisons");
  at("gather").disabled = true;
  at("gathered").textContent = "Studies are put side by side …";
  return whenMade(reply, (made) => {
    const all = comparisons(made);
    place.replaceChildren(...all.slice(0, FIRST), ...aside(made));
    if (all.length > FIRST) {
      const more = folded(several(all.length - FIRST, "more comparison"), ...all.slice(FIRST));
      place.insertBefore(more, place.children[FIRST]);
    }
    at("gathered").textContent = all.length ? `${several(all.length, "comparison")}, the best studied first.`
      : "No result that was read compares this on an outcome that was asked for.";
    at("gather").hidden = true;
  });
}

// Draws what the server gathers for a question, asked once, unless another answer is shown by then.
async function whenMade(reply, draw) {
  if (!gathered.has(reply)) {
    gathered.set(reply, read("v1/synthesis", { body: { question: reply.question, ...(reply.model === "rules" ? {} : behind(reply)) } }));
  }
  try {
    const made = await gathered.get(reply);
    if (shown === reply) draw(made);
  } catch (error) {
    gathered.delete(reply);
    if (shown !== reply) return;
    at("gathered").textContent = error.message;
    at("gather").disabled = false;
  }
}

// What a model's answer rests on: by its findings the server knows what is compared.
function behind(reply) {
  const told = reply.evidence.flatMap(({ doc_id, text, number }) => placesIn(reply, number).map(({ start, end }) =>
    ({ doc_id, text: [...text].slice(start, end).join("") }))).slice(0, 100);
  const lead = reply.sentences.filter(({ part }) => part === "answer").map(({ text }) => text);
  return { told, answer: short(lead.join(" "), 4000) };
}

// The best studied comparison of the asked outcome that holds a paper which the answer cites.
function inShort(made, reply) {
  const numbers = citedOf(reply);
  const cited = new Set(reply.evidence.filter((each) => numbers.has(each.number)).map((each) => each.doc_id));
  const own = (rows) => rows.filter(({ papers }) => papers.some((id) => cited.has(id))).length;
  const asked = made.parts.O?.length && !made.not_counted.no_study_has.length;
  const best = asked && made.comparisons.find((each) => each.studies.length && own([...each.studies, ...each.reviews]));
  if (!best) return [];
  const { studies: count, agree, sure: argued } = best.in_short;
  const all = made.comparisons.length > 1 ? `All ${made.comparisons.length} comparisons, study by study` : "Study by study";
  const more = make("button", { type: "button", className: "plain" }, all);
  more.addEventListener("click", async () => {
    await open(reply);
    at("across-title").scrollIntoView();
  });
  const used = own(best.studies);
  const uncited = used < best.studies.length ? ` The answer cites ${used || "none"} of them.` : "";
  return [
    make("p", { className: "sum", dir: "auto" }, `${named(best)}. `, make("strong", {}, count), uncited),
    agree ? make("p", { className: "label", dir: "auto" }, agree) : "",
    make("p", { className: "fine", dir: "auto" }, argued), more,
  ].filter(Boolean);
}

function named({ interventions: given, against, outcome }) {
  return begun(`${given.slice(0, 3).join(" / ") || "as asked"}${given.length > 3 ? " …" : ""} vs ${against}: ${outcome}`);
}

function comparisons(made) {
  let plot = 0; // plots stand in the order of what is pooled
  return made.comparisons.map((each) => {
    const pooled = each.pooled.map((pool) => forest(pool, made.plots[plot++]));
    return make("article", { className: "comparison" },
      make("h3", { dir: "auto" }, named(each)),
      make("p", { className: "sum" }, each.in_short.studies),
      studies(each.studies, "Studies"), ...pooled,
      each.reviews.length ? make("h4", {}, "Reviews, not counted among the studies") : "",
      each.reviews.length ? studies(each.reviews, "Reviews") : "",
      ...differing(each), whom([...each.studies, ...each.reviews]), ...sure(each.certainty));
  });
}

function table(name, heads, rows) {
  return make("table", { className: "rows", "aria-label": name },
    make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))),
    make("tbody", {}, ...rows));
}

const titled = (study) => [badge(study.grade), " ", standingMark({ standing: study.status }),
  make("span", { dir: "auto" }, short(study.title, 90)), study.year ? ` (${study.year})` : ""];

// ---- the studies ----

const studies = (rows, name) => table(name, ["Study", "Compared", "Found", "Effect"], rows.map((study) =>
  make("tr", {},
    cell("Study", make("div", {}, ...titled(study).filter(Boolean)), make("span", { className: "fine" },
      study.n ? `n = ${study.n.toLocaleString("en")}` : "number of people not told",
      study.papers.length > 1 ? `; one study in ${study.papers.length} papers, by ${study.one_study_by}` : ""),
    sentence(study)),
    cell("Compared", `${study.intervention.join(" + ")} vs ${study.comparator.join(" + ") || "–"}`,
      make("span", { className: "fine" }, list([study.outcome, ...study.times,
        study.part_of_its_people ? `only in ${list(study.people)}` : ""]))),
    cell("Found", says(study.direction)),
    cell("Effect", make("span", { className: "effect" }, list([study.effect, study.interval, study.p && `p ${study.p}`]) || "no figure"),
      make("span", { className: "fine" }, study.read ? readAs(study) : `not pooled: ${study.not_pooled}`)))));

const readAs = ({ read: { kind, value, interval, unit, from_counts: counts, half_event_added: half }, turned }) =>
  list([`read as ${kind} ${figure(value)}${unit && ` ${unit}`} (${ends(interval)})`, turned && "turned: the paper has it the other way round",
    counts && "from counts", half && "half an event added"]);

// The sentence in its passage, which is asked for when it is opened.
function sentence(study) {
  const place = make("div", {}, make("blockquote", { dir: "auto" }, make("mark", {}, study.sentence)));
  const node = folded("The sentence", place,
    ...study.contradicted_by.map((text) => quiet(`It also says: “${text}”`)),
    study.conclusion_beyond ? quiet(`Its conclusion goes further: “${study.conclusion_beyond}”`) : "");
  if (study.window) node.addEventListener("toggle", () => passage(study, place), { once: true });
  return node;
}

async function passage(study, place) {
  try {
    const found = await read(`v1/windows/${study.window}`);
    const spans = spansOf({ ...found, quotes: [] }, [study.sentence]);
    place.replaceChildren(...(spans.length ? [] : place.childNodes), windowOf(found.text, spans), source(found));
  } catch (error) {
    place.append(quiet(`Its passage is not here: ${error.message}`));
  }
}

// ---- together ----

function forest(pool, plot) {
  const foretold = pool.prediction_interval ? `a further study: ${ends(pool.prediction_interval)}`
    : "too few for a prediction interval";
  return make("figure", { className: "forest" },
    make("img", { src: plot, alt: `Forest plot of ${several(pool.studies, "study", "studies")}: ${pool.kind}, told below` }),
    make("figcaption", { className: "fine" }, `Pooled ${pool.kind}, ${several(pool.studies, "study", "studies")}: random effects ${figure(pool.random)} (95 % ${ends(pool.random_interval)}), fixed ${figure(pool.fixed)} (${ends(pool.fixed_interval)}); I² ${Math.round(100 * pool.i2)} %, τ² ${figure(pool.tau2)}; ${foretold}.`));
}

// What sets studies apart that do not say the same, side by side.
function differing({ differs, studies: rows }) {
  const names = Object.keys(differs);
  if (!names.length) return [];
  return [make("h4", {}, "They do not say the same: what sets them apart"),
    table("What sets the studies apart", ["Study", "Found", ...names.map(capital)], rows.map((study, n) => make("tr", {},
      cell("Study", ...titled(study)), cell("Found", says(study.direction)),
      ...names.map((name) => cell(capital(name), differs[name][n] || "not told")))))];
}

const begun = (text) => text[0].toUpperCase() + text.slice(1);
const capital = (name) => name === "n" ? "People (n)" : begun(name).replace("_", " ");

// Who was asked about, and below whom the studies tell of.
function whom(rows) {
  const parts = rows[0].fit.filter(({ part, asked }, n) => asked || rows.some((row) => row.fit[n].told));
  if (!parts.length) return "";
  const place = (part) => rows[0].fit.findIndex((each) => each.part === part);
  return folded("Your patient and theirs", table("The people of the question and of the studies", ["Who", ...parts.map((each) => capital(each.part))], [
    make("tr", { className: "asked" }, cell("Who", "Asked about"), ...parts.map((each) => cell(capital(each.part), each.asked || "not asked"))),
    ...rows.map((study) => make("tr", {}, cell("Who", ...titled(study)),
      ...parts.map(({ part }) => held(study.fit[place(part)]))))]));
}

function held({ part, told, meets }) {
  const mark = { true: "✓ as asked", false: "≠ another" }[meets];
  return cell(capital(part), told || "not told", mark ? make("span", { className: `fine${meets ? "" : " other"}` }, mark) : null);
}

const sure = (domains) => domains.length ? [make("h4", {}, "How sure, by GRADE’s domains"),
  make("ul", { className: "domains" }, ...domains.map(({ domain, judgement, reason, sentences }) =>
    make("li", { className: judgement === "concern" ? "concern" : "" },
      make("strong", {}, `${capital(domain)}: ${judgement}. `), make("span", { dir: "auto" }, `${reason}.`),
      sentences.length ? folded(several(sentences.length, "sentence"), ...sentences.map((text) => quiet(`“${text}”`))) : "")))] : [];

// ---- what was not counted ----

function aside({ announced, comparisons, not_counted: left, parts, read_by: reader, standing_known: known }) {
  const titles = (papers) => papers.slice(0, 5).map(markedTitle).join("; ") + (papers.length > 5 ? "; …" : "");
  const counts = [[left.background, "told as background"], [left.conclusions_without_result.length, "concluded without a result that was read"],
    [left.figures_of_one_group, "figures of one group"]].filter(([n]) => n).map(([n, what]) => `${n} ${what}`).join("; ");
  return [
    ...announced.map((each) => `Announced: ${each.outcome}, ${markedTitle(each)}: ${each.found ? "a result" : "no result"} is here.`),
    ...left.no_study_has.map((part) => `No result that was read ${part === "C" ? "compares with" : "tells of"} “${parts[part].join(" / ")}” by that name${comparisons.length ? "; these have others" : ""}.`),
    counts && `Not counted as results: ${counts}.`,
    left.other_people.length && `Of other people, ${several(left.other_people.length, "study", "studies")}: ${titles(left.other_people)}.`,
    left.left_out.length && `Left out, as they must not be cited: ${titles(left.left_out)}.`,
    !known && "Whether these papers are retracted is not known: this build did not look.",
    `Findings read by ${reader}.`,
  ].filter(Boolean).map(quiet);
}
