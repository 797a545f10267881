"""Have a model judge what people judged, or answers whose order is known, as an evaluation would.

    python -m tests.played.judges order URL ROOT
    python -m tests.played.judges support URL ROOT DATA [PAIRS]

`order` judges answers to the questions of `ORDERED` that are copies of the gold, the gold in short,
the gold turned round, the question again, nothing, and what is on the topic alone, and says where
their scores are not in that order; and whether what is said to be lacking is believed just where it
lacks. `support` judges sentences of DATA/sentences.jsonl (see tests.played.check_answer), at least
PAIRS (100) in the order of the hashes of their questions, and counts how many of each kind are
called supported. What physicians say of nuggets is `srrag evaluate bench=nli bench.path=…`.

URL is an OpenAI-compatible endpoint; answers are kept in the log of ROOT.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from srrag.algo.significance import ratio_interval
from srrag.core.schema import EVIDENCE, empty_value, sentence_row
from srrag.core.step import Place, Step
from srrag.engine.openai.engine import HttpEngine
from srrag.lab.experiment.judging import sources
from srrag.lab.judges.accuracy import JudgeAccuracy
from srrag.lab.judges.citations import MeasureCitations
from srrag.lab.judges.gold import JudgeByGold
from srrag.lab.judges.nuggets import MeasureClaims, MeasureNuggets, MeasurePicot
from srrag.lab.judges.support import JudgeClaims, JudgeStatements
from srrag.lab.measure.judgements import CASES
from srrag.lab.measure.judging_steps import metrics_of
from srrag.lab.measure.scores import score
from srrag.llm.completion import Engine, Rules
from srrag.runner.engines import engines_here
from tests.played.check_answer import grouped, read_half

BLANK = {item.name: empty_value(item.type) for item in CASES if item.name != "reject"}
PIECE = {item.name: empty_value(item.type) for item in EVIDENCE.value_type}


class Ordered(NamedTuple):
    """A question with its gold, the gold in short and turned round, and what is near the topic.

    `lacks` says what the evidence lacks, `has` the same of what it has.
    """

    question: str
    evidence: str
    ideal: str
    nuggets: tuple[str, ...]
    picot: Mapping[str, str]
    short: str
    flipped: str
    near: str
    lacks: str
    has: str


ORDERED = (
    Ordered(
        "In adults with chronic plantar heel pain, does high-load strength training reduce pain at "
        "3 months more than stretching?",
        "Forty-eight adults with plantar fasciitis were randomised to high-load strength training "
        "or plantar stretching. At 3 months the Foot Function Index was 29 points lower with "
        "strength training (95 % CI 6 to 52). At 12 months the groups did not differ.",
        "In adults with plantar heel pain, high-load strength training lowered the Foot Function "
        "Index by 29 points more than stretching at 3 months; at 12 months there was no "
        "difference.",
        (
            "In adults with plantar heel pain, high-load strength training lowers pain more than "
            "stretching at 3 months.",
            "The difference at 3 months is 29 points of the Foot Function Index.",
            "At 12 months strength training and stretching do not differ.",
        ),
        {
            "P": "adults with plantar heel pain",
            "I": "high-load strength training",
            "C": "stretching",
            "O": "pain",
            "T": "3 months",
        },
        "Yes: by 29 points of the Foot Function Index, but no longer at 12 months.",
        "In adults with plantar heel pain, stretching lowered the Foot Function Index by 29 points "
        "more than high-load strength training at 3 months; at 12 months strength training was "
        "still worse.",
        "Plantar fasciitis is a common cause of heel pain. Stretching is often advised.",
        "No adverse events are reported.",
        "No confidence interval is given.",
    ),
    Ordered(
        "Does warfarin prevent strokes in people with non-valvular atrial fibrillation, compared "
        "with placebo?",
        "Six trials with 2,900 participants with non-valvular atrial fibrillation compared "
        "adjusted-dose warfarin with placebo. Warfarin reduced stroke by 64 % (95 % CI 49 to 74). "
        "Major bleeding outside the skull was about twice as frequent.",
        "Yes. In people with non-valvular atrial fibrillation, adjusted-dose warfarin lowers the "
        "risk of stroke by 64 % compared with placebo; major bleeding is about twice as frequent.",
        (
            "Warfarin lowers the risk of stroke in non-valvular atrial fibrillation.",
            "The reduction against placebo is 64 %.",
            "Major bleeding is about twice as frequent with warfarin.",
        ),
        {
            "P": "people with non-valvular atrial fibrillation",
            "I": "warfarin",
            "C": "placebo",
            "O": "stroke",
            "T": "",
        },
        "Yes, by 64 %, at the price of about twice as many major bleedings.",
        "No. In people with non-valvular atrial fibrillation, adjusted-dose warfarin raises the "
        "risk of stroke by 64 % compared with placebo; major bleeding is half as frequent.",
        "Atrial fibrillation is an irregular rhythm. Warfarin needs regular blood tests.",
        "The age of the participants is not told.",
        "Nothing is told of bleeding.",
    ),
    Ordered(
        "Does routine early mobilisation within 24 hours improve independence at 3 months after "
        "acute stroke?",
        "In 2,104 adults with acute stroke, very early mobilisation within 24 hours reduced the "
        "odds of a favourable outcome (modified Rankin 0 to 2) at 3 months: 46 % against 50 % with "
        "usual care (adjusted odds ratio 0.73, 95 % CI 0.59 to 0.90). Deaths did not differ.",
        "No. After acute stroke, very early mobilisation within 24 hours lowered the share with a "
        "favourable outcome at 3 months, 46 % against 50 % with usual care; deaths did not differ.",
        (
            "Very early mobilisation lowers the odds of a favourable outcome at 3 months after "
            "stroke.",
            "A favourable outcome was reached by 46 % against 50 % with usual care.",
            "Deaths do not differ between very early mobilisation and usual care.",
        ),
        {
            "P": "adults with acute stroke",
            "I": "mobilisation within 24 hours",
            "C": "usual care",
            "O": "independence, favourable outcome",
            "T": "3 months",
        },
        "No, it does worse than usual care: 46 % against 50 % do well, with as many deaths.",
        "Yes. After acute stroke, very early mobilisation within 24 hours raised the share with a "
        "favourable outcome at 3 months, 50 % against 46 % with usual care; deaths were fewer.",
        "Stroke units begin rehabilitation early. The modified Rankin scale runs from 0 to 6.",
        "No cost is reported.",
        "Deaths are not reported.",
    ),
)
ANSWERS = ("copied", "short", "flipped", "echoed", "empty", "near", "lacks", "has")
HIGH = ("copied", "short")
JUDGED = (
    "nugget_coverage", "picot_match", "answer_precision", "factuality", "faithfulness",
    "answer_accuracy",
)  # fmt: skip
LEAST = 0.8
"""What copy and short form have to reach in each of these on the mean."""
ASIDE = {
    ("flipped", "picot_match"), ("echoed", "faithfulness"), ("echoed", "factuality"),
    ("near", "factuality"), ("lacks", "faithfulness"), ("lacks", "factuality"),
}  # fmt: skip
"""What a turned answer is about is right; an echo that claims nothing has no share of claims; what
is near the topic may be true, and what is said to lack is."""


def ordered_cases() -> pa.Table:
    """Each question with each answer, told as one sentence that cites the evidence."""
    rows = []
    for number, each in enumerate(ORDERED):
        said = (
            each.ideal, each.short, each.flipped, each.question, "",
            each.near, each.lacks, each.has,
        )  # fmt: skip
        for name, text in zip(ANSWERS, said, strict=True):
            piece = PIECE | {"evidence_id": "e", "title": "Trial", "text": each.evidence}
            row = {
                "query_id": f"{number} {name}",
                "text": each.question,
                "answer": text,
                "missing": "" if text else "empty",
                "sentences": [sentence_row(text, ["e"])] if text else [],
                "evidence": [piece],
                "ideal_answer": each.ideal,
                "nuggets": [{"text": nugget, "importance": "vital"} for nugget in each.nuggets],
                "picot": each.picot,
                "reject": None,
            }
            rows.append(BLANK | row)
    return pa.Table.from_pylist(rows, schema=CASES)


def faults(values: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """Where the mean scores of the answers are not in order: `values` by metric and answer."""
    for metric in JUDGED:
        found = values[metric]
        for name in HIGH:
            if found[name] < LEAST:
                yield f"{metric}: {name} has {found[name]:.2f}"
        least = min(found[name] for name in HIGH)
        for name in ANSWERS[len(HIGH) :]:
            if (name, metric) not in ASIDE and found.get(name, 0.0) >= least - 0.3:
                yield f"{metric}: {name} has {found[name]:.2f}, the right ones {least:.2f}"
    if values["faithfulness"]["lacks"] < LEAST:
        yield f"faithfulness: of what lacks {values['faithfulness']['lacks']:.2f} is believed"


def judged(cases: pa.Table, steps: Mapping[str, Step], place: Place) -> dict[str, pa.Table]:
    """What each step makes of the cases."""
    made = {"cases": cases}
    for name, source in sources(steps).items():
        made[name] = steps[name].open(place)(made[source])
    return made


def order(engine: Engine, place: Place) -> None:
    """Judge the answers whose order is known, and print their mean scores."""
    steps: dict[str, Step] = {
        "support": JudgeClaims(engine=engine),
        "statements": JudgeStatements(engine=engine),
        "gold": JudgeByGold(engine=engine),
        "nuggets": MeasureNuggets(),
        "picot": MeasurePicot(),
        "citations": MeasureCitations(),
        "claims": MeasureClaims(),
        "accuracy": JudgeAccuracy(engine=engine),
    }
    made = judged(ordered_cases(), steps, place)
    values: dict[str, dict[str, float]] = {}
    for name, step in steps.items():
        for answer in ANSWERS if metrics_of(step) else ():
            queries = [f"{number} {answer}" for number in range(len(ORDERED))]
            for each in score(metrics_of(step), made[name], queries):
                if each.questions:
                    mean = float(each.parts.sum() / each.wholes.sum())
                    values.setdefault(each.metric.name, {})[answer] = mean
    print(f"{'':18}", *(f"{answer:>8}" for answer in ANSWERS))
    for metric in JUDGED:
        shown = (
            f"{values[metric][a]:8.2f}" if a in values[metric] else f"{'–':>8}" for a in ANSWERS
        )
        print(f"{metric:18}", *shown)
    for fault in faults(values):
        print("NOT IN ORDER", fault)


def support_cases(groups: Iterable[Sequence[Mapping[str, Any]]]) -> pa.Table:
    """A question a group, answered by its sentences; each window that one cites is evidence."""
    rows = []
    for number, group in enumerate(groups):
        windows = dict.fromkeys((w["title"], w["text"]) for row in group for w in row["cited"])
        names = {window: f"e{n}" for n, window in enumerate(windows)}
        cites = [[names[w["title"], w["text"]] for w in row["cited"]] for row in group]
        pairs = zip(group, cites, strict=True)
        rows.append(
            BLANK
            | {
                "query_id": str(number),
                "text": group[0]["question"],
                "answer": " ".join(row["sentence"] for row in group),
                "sentences": [sentence_row(row["sentence"], ids) for row, ids in pairs],
                "evidence": [
                    PIECE | {"evidence_id": name, "title": title, "text": text}
                    for (title, text), name in names.items()
                ],
                "reject": None,
            }
        )
    return pa.Table.from_pylist(rows, schema=CASES)


def support(engine: Engine, place: Place, data: str, pairs: str = "100") -> None:
    """Judge labelled sentences, and count those that are called supported, by kind."""
    groups: list[Sequence[Any]] = []
    for group in grouped(read_half(Path(data), "tune")):
        if sum(map(len, groups)) < int(pairs):
            groups.append(group)
    cases = JudgeClaims(engine=engine).open(place)(support_cases(groups)).to_pylist()
    counts: dict[str, Counter[str]] = {}
    hits: list[Counter[tuple[bool, bool]]] = []
    for group, case in zip(groups, cases, strict=True):
        hits.append(Counter())
        for place_, row in enumerate(group):
            words = [c["verdict"] for c in case["claims"] if c["sentence"] == place_]
            said = "lost" if not words else "full" if set(words) == {"full"} else "not full"
            true = row["label"] == "supported"
            counts.setdefault(row["kind"] if not true else "supported", Counter())[said] += 1
            hits[-1][true, said == "full"] += 1
    for kind, row in sorted(counts.items()):
        print(f"{kind:14}", dict(row))
    right = np.array([2.0 * each[True, True] for each in hits])
    wrong = np.array([float(each[True, False] + each[False, True]) for each in hits])
    some = right + wrong > 0
    f1 = ratio_interval(right[some], (right + wrong)[some])
    told = "{:.3f} [{:.3f}, {:.3f}]".format(*f1)
    print(
        f"{sum(map(Counter.total, hits))} sentences in {len(groups)} calls; F1 of supported {told}"
    )


def main(what: str, url: str, root: str, *more: str) -> None:
    """Ask, and print; the URL `rules` asks nobody."""
    run = {"order": order, "support": support}[what]
    if url == "rules":
        run(Rules(), Place(root=Path(root)), *more)
        return
    engine = HttpEngine(model="big", base_url=url, concurrency=200, timeout_s=7000.0, max_retries=0)
    with engines_here([engine], Place(root=Path(root))) as engines:
        run(engine, Place(root=Path(root), clients=engines.clients), *more)


if __name__ == "__main__":
    main(*sys.argv[1:])
