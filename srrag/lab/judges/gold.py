"""How an answer compares with its gold, in one call: facts, parts of the question, claims.

Facts follow TREC's nuggetizer (full, partial or no support, judged as an answer to its question,
all in one call) and SR-RAG's Listing S3; parts its Listing S4; claims BioACE's precision and
rethinking-rag's factuality (section 2.4.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from srrag.algo.entailment import SENTENCE_THRESHOLD, THRESHOLD, content_stems, entails, sentences
from srrag.lab.benchmark.split_nuggets import PROMPT as NUGGETS_PROMPT
from srrag.lab.benchmark.split_nuggets import STAGE, Nuggets, by_rules, fault, standing
from srrag.lab.judges.support import MAX_CLAIMS, MAX_FACTS, Number
from srrag.lab.measure.judgements import (
    FIELDS,
    OF_RULE,
    Case,
    Verdict,
    absent,
    first_words,
    in_order,
    incomplete,
    lines,
    together,
    verdict,
)
from srrag.lab.measure.judging_steps import Preparation
from srrag.llm.completion import Answer, Fault, PromptFile, quoted
from srrag.llm.fields import Items, Means, Text


@dataclass(frozen=True, kw_only=True)
class MakeNuggets(Preparation):
    """Takes ideal answers whose gold names no nuggets apart, as SplitNuggets does, in one call.

    At most 16 nuggets are kept; sentences beyond that are left out by rules, and counted.
    Vital nuggets are the must-have statements of rethinking-rag (section 4.1.1), which it marks in
    a second call. Without them a case is rejected, and counts as failed everywhere.
    """

    reads: ClassVar[tuple[str, ...]] = ("text", "ideal_answer", "nuggets", "reject")
    fills: ClassVar[tuple[str, ...]] = ("nuggets", "reject")
    prompt_files: ClassVar[tuple[Path, ...]] = (NUGGETS_PROMPT.path,)
    file: ClassVar[PromptFile] = NUGGETS_PROMPT

    def user(self, case: Case) -> str | None:
        """Question and ideal answer, if there are no nuggets."""
        if not case["ideal_answer"] or case["nuggets"]:
            return None
        return NUGGETS_PROMPT.user(
            question=quoted(case["text"]), answer=quoted(case["ideal_answer"])
        )

    def rule(self, case: Case) -> Nuggets:
        """Make each sentence a vital nugget."""
        return by_rules(sentences(case["ideal_answer"]))

    def lacks(self, case: Case, said: Any) -> Fault | None:
        """Return a fault for nuggets with a number that question and answer lack."""
        return fault(said, [case["ideal_answer"], case["text"]])

    def take(self, case: Case, said: Any, lost: str) -> dict[str, Any]:
        """Make nuggets, or reject the case."""
        if said is None and not lost:
            return {name: case[name] for name in self.fills}
        nuggets = standing(said, [case["ideal_answer"], case["text"]]) if said else []
        reject = {"stage": STAGE, "reason": lost or "no_nuggets", "detail": "no fact to judge by"}
        return {"nuggets": nuggets, "reject": case["reject"] or (None if nuggets else reject)}


FIELD_THRESHOLD = 0.5
"""Share of its words that an answer has to hold, for the rules to match a part."""
NAMES = dict(zip(FIELDS, ("population", "intervention", "comparator", "outcome", "time"),
                 strict=True))  # fmt: skip


class FactVerdict(Answer):
    """How far the answer states one fact."""

    n: Annotated[Number, Means("the number of the fact")]
    reason: Annotated[str, Text(25, "what the answer says of it, in a few words", "it is plain")]
    verdict: Annotated[
        Verdict,
        Means(
            "what the answer does with the fact",
            {
                "full": "states all of it, or what a clinician reads it off at once",
                "partial": "states its main part, but leaves out or blurs something that matters",
                "none": "does not state it, or is merely on its topic",
                "contradicted": "says what cannot be true together with it",
            },
        ),
    ]


class PartVerdict(Answer):
    """What the answer is about, in one part of the question."""

    part: Annotated[Literal["P", "I", "C", "O", "T"], Means("the part")]
    found: Annotated[str, Text(20, "what the answer is about in this part", "nothing is stated")]
    reason: Annotated[str, Text(20, "how that differs from what is expected", "it does not")]
    verdict: Annotated[
        Verdict,
        Means(
            "what was found",
            {
                "full": "means the same to a clinician, in whatever words",
                "partial": "is wider, narrower or less exact",
                "none": "is not there",
                "contradicted": "is another one",
            },
        ),
    ]


class ClaimVerdict(Answer):
    """Which facts a claim makes, and whether it is right."""

    n: Annotated[Number, Means("the number of the claim")]
    reason: Annotated[str, Text(25, "why it is right or wrong, in a few words", "it is plain")]
    facts: Annotated[list[Number], Items(8, "the facts that it states, in full", "it states none")]
    verdict: Annotated[
        Verdict,
        Means(
            "whether the claim",
            {
                "full": "is right",
                "partial": "is right in the main, but wrong or blurred in something that matters",
                "none": "has no basis that you know, or says nothing that the question does not",
                "contradicted": "is wrong",
            },
        ),
    ]


class GoldComparison(Answer):
    """An answer beside its gold."""

    example: ClassVar[dict[str, Any] | None] = {
        "facts": [
            {"n": 1, "reason": "It has fewer attacks, but no number.", "verdict": "partial"},
            {"n": 2, "reason": "Thrush is not named.", "verdict": "none"},
        ],
        "parts": [
            {"part": "P", "found": "adults with asthma", "reason": "", "verdict": "full"},
            {"part": "T", "found": "", "reason": "No time is told.", "verdict": "none"},
        ],
        "claims": [
            {"n": 1, "reason": "The reference has as few.", "facts": [1], "verdict": "full"},
        ],
    }

    facts: Annotated[list[FactVerdict], Items(MAX_FACTS, "one a fact, in order", "none is given")]
    parts: Annotated[list[PartVerdict], Items(5, "one a part, in order", "none is given")]
    claims: Annotated[
        list[ClaimVerdict], Items(MAX_CLAIMS, "one a claim, in order", "none is given")
    ]


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "judge_by_gold.md", GoldComparison)


@dataclass(frozen=True, kw_only=True)
class JudgeByGold(Preparation):
    """One call an answer, with its question, nuggets, ideal answer, PICOT and claims.

    Facts and parts are looked for in the first `words` words of the answer (None: in all), so that
    quoting everything gains nothing. Of each claim it is told what JudgeClaims said of it. By
    rules a text states a fact of which it holds `THRESHOLD` of the words, and a part of which it
    holds `FIELD_THRESHOLD`; a claim is right if the gold, or its evidence, holds
    `SENTENCE_THRESHOLD` of its words, and none if it has no word that the question lacks.
    """

    reads: ClassVar[tuple[str, ...]] = (
        "text", "answer", "missing", "nuggets", "picot", "ideal_answer", "claims",
    )  # fmt: skip
    fills: ClassVar[tuple[str, ...]] = ("nugget_verdicts", "picot_verdicts", "claim_verdicts")
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)
    file: ClassVar[PromptFile] = PROMPT

    words: int | None = 250

    def user(self, case: Case) -> str | None:
        """Answer, gold and claims, if there is an answer whose gold says something."""
        if case["missing"] or not (case["nuggets"] or parts(case) or to_check(case)):
            return None
        expected = (
            {"part": name, "name": NAMES[name], "expected": case["picot"][name]}
            for name in parts(case)
        )
        claims = ({"claim": c["text"], "in its evidence": c["verdict"]} for c in to_check(case))
        return PROMPT.user(
            question=quoted(case["text"]),
            answer=quoted(first_words(case["answer"], self.words)),
            reference=quoted(case["ideal_answer"]),
            facts=lines({"fact": each["text"]} for each in case["nuggets"]) or "(none)",
            parts="\n".join(map(quoted, expected)) or "(none)",
            claims=lines(claims) or "(none)",
        )

    def rule(self, case: Case) -> GoldComparison:
        """Compare words."""
        return _rule(case, self.words)

    def lacks(self, case: Case, said: Any) -> Fault | None:
        """Facts, parts and claims without a verdict."""
        found = {each.part for each in said.parts}
        return together(
            incomplete(said.facts, min(MAX_FACTS, len(case["nuggets"])), "fact"),
            absent(said.parts, [name for name in parts(case) if name not in found], "part"),
            incomplete(said.claims, len(to_check(case)), "claim"),
        )

    def take(self, case: Case, said: Any, lost: str) -> dict[str, Any]:
        """Bring the verdicts into the order of the gold, with a fault where one lacks."""
        answer = said or GoldComparison(facts=[], parts=[], claims=[])
        found = {each.part: each for each in reversed(answer.parts)}
        listed = (
            in_order(answer.facts, len(case["nuggets"])),
            [found.get(name) for name in parts(case)],
            in_order(answer.claims, len(to_check(case))),
        )
        return {
            name: [_verdict(each, lost or "incomplete", case) for each in items]
            for name, items in zip(self.fills, listed, strict=True)
        }


def parts(case: Case) -> list[str]:
    """The parts of the question that the gold has."""
    return [name for name in FIELDS if case["picot"][name]]


def to_check(case: Case) -> list[dict[str, Any]]:
    """The claims of an answer, if the gold has something to compare them with."""
    claims: list[dict[str, Any]] = case["claims"]
    return claims if case["nuggets"] or case["ideal_answer"] else []


def reference(case: Case) -> str:
    """The ideal answer, and the nuggets that it may say in other words."""
    nuggets = (nugget["text"] for nugget in case["nuggets"])
    return "\n".join(filter(None, (case["ideal_answer"], *nuggets)))


def _verdict(given: Any, lost: str, case: Case) -> dict[str, Any]:
    if given is None:
        return verdict("none", "no verdict on it", lost)
    if isinstance(given, PartVerdict):  # nothing can match that was not found
        told = f"{given.reason} (found: {given.found!r})"
        return verdict(given.verdict if given.found else "none", told)
    facts = [n - 1 for n in getattr(given, "facts", ()) if n <= len(case["nuggets"])]
    return verdict(given.verdict, given.reason, facts=facts)


def _rule(case: Case, words: int | None) -> GoldComparison:
    said, asked = first_words(case["answer"], words), set(content_stems(case["text"]))
    facts = []
    for n, nugget in enumerate(case["nuggets"], start=1):
        found = entails(said, nugget["text"], case["text"], THRESHOLD)
        facts.append(FactVerdict(n=n, reason=found.reason, verdict=OF_RULE[found.verdict]))
    listed = []
    for name in parts(case):
        found = entails(said, case["picot"][name], threshold=FIELD_THRESHOLD)
        # A denied part is named all the same: whether the answer agrees is not asked here.
        named = found.score >= FIELD_THRESHOLD
        listed.append(
            PartVerdict(
                part=name,  # type: ignore[arg-type]
                found=case["picot"][name] if named else "",
                reason=found.reason,
                verdict="full" if named else "none",
            )
        )
    claims = [_rule_claim(case, n, each, asked) for n, each in enumerate(to_check(case), start=1)]
    return GoldComparison(facts=facts, parts=listed, claims=claims)


def _rule_claim(case: Case, n: int, claim: dict[str, Any], asked: set[str]) -> ClaimVerdict:
    if not set(content_stems(claim["text"])) - asked:
        reason = "it says nothing that the question does not"
        return ClaimVerdict(n=n, reason=reason, facts=[], verdict="none")
    made = [
        place
        for place, nugget in enumerate(case["nuggets"], start=1)
        if entails(claim["text"], nugget["text"], case["text"], THRESHOLD).verdict == "supported"
    ]
    found = entails(reference(case), claim["text"], threshold=SENTENCE_THRESHOLD)
    word, reason = OF_RULE[found.verdict], f"reference: {found.reason}"
    if word == "none" and claim["verdict"] == "full":
        word, reason = "full", f"evidence: {claim['reason']}"
    return ClaimVerdict(n=n, reason=reason, facts=made, verdict=word)
