// What studies found, across papers: made when it is asked for, from the record of /v1/synthesis.

import { at, make, read, several, short } from "./dom.js";
import { badge, source, standingMark } from "./evidence.js";
import { cell } from "./findings.js";
import { spansOf, windowOf } from "./window.js";

const FIRST = 3; // comparisons that stand open
const quiet = (text) => make("p", { className: "quiet", dir: "auto" }, text);
const says = (text) => make("span", { className: "says" }, text);
const list = (values) => values.filter(Boolean).join("; ");
const figure = (value) => String(Number(value.toPrecision(3))).replace("-", "−");
const ends = (pair) => `${figure(pair[0])} to ${figure(pair[1])}`;
const folded = (told, ...content) => make("details", {}, make("summary", {}, told), ...content);

// Offers the studies of a question; what an earlier question had goes.
export function offerAcross(question) {
  at("comparisons").replaceChildren();
  at("gathered").textContent = "";
  at("gather").hidden = false;
  at("gather").disabled = false;
  at("gather").onclick = () => gather(question);
}

async function gather(question) {
  const place = at("comparisons");
  at("gather").disabled = true;
  at("gathered").textContent = "Studies are put side by side …";
  const stale = () => at("asked").textContent !== question;
  try {
    const made = await read("v1/synthesis", { body: { question } });
    if (stale()) return;
    const shown = comparisons(made);
    place.replaceChildren(...shown.slice(0, FIRST), ...aside(made));
    if (shown.length > FIRST) {
      const more = folded(several(shown.length - FIRST, "more comparison"), ...shown.slice(FIRST));
      place.insertBefore(more, place.children[FIRST]);
    }
    at("gathered").textContent = shown.length ? `${several(shown.length, "comparison")}, the best studied first.`
      : "No study here compares this on an outcome that was asked for.";
    at("gather").hidden = true;
  } catch (error) {
    if (stale()) return;
    at("gathered").textContent = error.message;
    at("gather").disabled = false;
  }
}

function comparisons(made) {
  let plot = 0; // plots stand in the order of what is pooled
  return made.comparisons.map((each) => {
    const pooled = each.pooled.map((pool) => forest(pool, made.plots[plot++]));
    const given = each.interventions.slice(0, 3).join(" / ") + (each.interventions.length > 3 ? " …" : "");
    return make("article", { className: "comparison" },
      make("h3", { dir: "auto" }, `${given || "As asked"} vs ${each.against}: ${each.outcome}`),
      make("p", { className: "sum" }, counted(each.directions)),
      studies(each.studies, "Studies"), ...pooled,
      each.reviews.length ? make("h4", {}, "Reviews, not counted among the studies") : "",
      each.reviews.length ? studies(each.reviews, "Reviews") : "",
      ...differing(each), whom([...each.studies, ...each.reviews]), ...sure(each.certainty));
  });
}

const counted = (directions) => Object.entries(directions).map(([name, grades]) =>
  `${name}: ${Object.entries(grades).map(([grade, n]) => `${n} of grade ${grade}`).join(", ")}`).join(" · ");

function table(name, heads, rows) {
  return make("table", { className: "rows", "aria-label": name },
    make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))),
    make("tbody", {}, ...rows));
}

const named = (study) => [badge(study.grade), " ", standingMark({ standing: study.status }),
  make("span", { dir: "auto" }, short(study.title, 90)), study.year ? ` (${study.year})` : ""];

// ---- the studies ----

const studies = (rows, name) => table(name, ["Study", "Compared", "Found", "Effect"], rows.map((study) =>
  make("tr", {},
    cell("Study", make("div", {}, ...named(study).filter(Boolean)), make("span", { className: "fine" },
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
      cell("Study", ...named(study)), cell("Found", says(study.direction)),
      ...names.map((name) => cell(capital(name), differs[name][n] || "not told")))))];
}

const capital = (name) => name === "n" ? "People (n)" : (name[0].toUpperCase() + name.slice(1)).replace("_", " ");

// Who was asked about, and below whom the studies tell of.
function whom(rows) {
  const parts = rows[0].fit.filter(({ part, asked }, n) => asked || rows.some((row) => row.fit[n].told));
  if (!parts.length) return "";
  const place = (part) => rows[0].fit.findIndex((each) => each.part === part);
  return folded("Your patient and theirs", table("The people of the question and of the studies", ["Who", ...parts.map((each) => capital(each.part))], [
    make("tr", { className: "asked" }, cell("Who", "Asked about"), ...parts.map((each) => cell(capital(each.part), each.asked || "not asked"))),
    ...rows.map((study) => make("tr", {}, cell("Who", ...named(study)),
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

function aside({ announced, comparisons, not_counted: left, parts, read_by: reader }) {
  const titles = (papers) => papers.slice(0, 5).map((paper) => paper.title).join("; ") + (papers.length > 5 ? "; …" : "");
  const counts = [[left.background, "told as background"], [left.conclusions_without_result.length, "concluded without a result that was read"],
    [left.figures_of_one_group, "figures of one group"]].filter(([n]) => n).map(([n, what]) => `${n} ${what}`).join("; ");
  return [
    ...announced.map((each) => `Announced: ${each.outcome}, ${each.title}: ${each.found ? "a result" : "no result"} is here.`),
    ...left.no_study_has.map((part) => `No study here ${part === "C" ? "compares with" : "tells of"} “${parts[part].join(" / ")}” by that name${comparisons.length ? "; these have others" : ""}.`),
    counts && `Not counted as results: ${counts}.`,
    left.other_people.length && `Of other people, ${several(left.other_people.length, "study", "studies")}: ${titles(left.other_people)}.`,
    left.left_out.length && `Left out, as they must not be cited: ${titles(left.left_out)}.`,
    `Findings read by ${reader}.`,
  ].filter(Boolean).map(quiet);
}
