"""What passages say of the claims of an answer, and of what the answer had to say, in one call.

Claims and their verdicts are RAGAS's faithfulness (statement generator and NLI prompt); passages
for each claim are TREC's support assessment of citations; passages for each vital nugget are
rethinking-rag's must-have statements that evidence supports (section 2.1.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from srrag.algo.entailment import SENTENCE_THRESHOLD, THRESHOLD, entails
from srrag.lab.measure.judgements import (
    OF_RULE,
    Case,
    Preparation,
    Verdict,
    in_order,
    incomplete,
    lines,
    must_have,
)
from srrag.llm.completion import Answer, Fault, PromptFile
from srrag.llm.delimit import quoted
from srrag.llm.fields import Items, Means, Text

MAX_CLAIMS = 32
MAX_FACTS = 48
MOST = 64
"""Pieces of evidence that a `depth` can name."""

Number = Annotated[int, Field(ge=1, le=999)]


class ClaimSupport(Answer):
    """A claim of the answer, and what the passages say of it."""

    sentence: Annotated[Number, Means("the number of the sentence that makes it")]
    claim: Annotated[str, Text(30, "one claim, which makes sense by itself")]
    reason: Annotated[str, Text(25, "what the passages say of it, in a few words", "it is plain")]
    states: Annotated[list[Number], Items(8, "the passages that state all of it", "none does")]
    partly: Annotated[list[Number], Items(8, "those that state a part of it", "none does")]
    denies: Annotated[list[Number], Items(4, "those that say otherwise", "none does")]
    verdict: Annotated[
        Verdict,
        Means(
            "by all passages together",
            {
                "full": "if one passage, or several together, state it or directly imply it",
                "partial": "if they state its main part, but something in it is not stated",
                "none": "if they do not state it, even where you know it to be true",
                "contradicted": "if they say what cannot be true together with it",
            },
        ),
    ]


class StatementSupport(Answer):
    """The passages that bear a given statement out."""

    n: Annotated[Number, Means("the number of the statement")]
    reason: Annotated[str, Text(20, "what the passages say of it, in a few words", "it is plain")]
    passages: Annotated[
        list[Number], Items(24, "all passages that bear it out, in full or in part", "none does")
    ]


class Supported(Answer):
    """Claims of an answer and given statements, with the passages that state them."""

    example: ClassVar[dict[str, Any] | None] = {
        "claims": [
            {
                "sentence": 1,
                "claim": "In adults with asthma, budesonide halved the attacks within a year.",
                "reason": "2 has half as many attacks, but at 6 months.",
                "states": [],
                "partly": [2],
                "denies": [],
                "verdict": "partial",
            }
        ],
        "statements": [{"n": 1, "reason": "1 and 2 count fewer attacks.", "passages": [1, 2]}],
    }

    claims: Annotated[
        list[ClaimSupport], Items(MAX_CLAIMS, "the claims of the answer, in order", "it makes none")
    ]
    statements: Annotated[
        list[StatementSupport],
        Items(MAX_FACTS, "one for each given statement, in order", "none is given"),
    ]


PROMPT = PromptFile(Path(__file__).parent / "prompts" / "judge_support.md", Supported)


@dataclass(frozen=True, kw_only=True)
class JudgeClaims(Preparation):
    """One call an answer: its sentences, the vital nuggets, and all evidence.

    It does not see what the sentences cite. An abstention has no claims; only nuggets are judged of
    it. By rules each sentence is a claim; a passage states it if it holds `SENTENCE_THRESHOLD` of
    its words, and a nugget if it holds `THRESHOLD` of them.
    """

    reads: ClassVar[tuple[str, ...]] = (
        "text", "answer", "missing", "abstained", "sentences", "evidence", "nuggets",
    )  # fmt: skip
    fills: ClassVar[tuple[str, ...]] = ("claims", "claims_fault", "support")
    prompt_files: ClassVar[tuple[Path, ...]] = (PROMPT.path,)
    file: ClassVar[PromptFile] = PROMPT

    def user(self, case: Case) -> str | None:
        """Sentences, nuggets and passages, if there is something to look for."""
        if not said(case) and not (case["evidence"] and must_have(case)):
            return None
        passages = ({"title": each["title"], "text": each["text"]} for each in case["evidence"])
        return PROMPT.user(
            question=quoted(case["text"]),
            sentences=lines({"sentence": text} for text in said(case)) or "(none)",
            statements=lines({"statement": text} for text in must_have(case)) or "(none)",
            passages=lines(passages) or "(none)",
        )

    def rule(self, case: Case) -> Supported:
        """Compare the words of each sentence and nugget with those of each passage."""
        return _rule(case)

    def lacks(self, case: Case, answer: Any) -> Fault | None:
        """Statements without a verdict, or an answer of which nothing was taken apart."""
        if not answer.claims and len(said(case)) > 1:
            return Fault("incomplete", "There is no claim. Take the sentences apart.")
        return incomplete(answer.statements, min(MAX_FACTS, len(must_have(case))), "statement")

    def take(self, case: Case, answer: Any, lost: str) -> dict[str, Any]:
        """Turn numbers of passages into ids; a number that was not shown is none."""
        listed = in_order(answer.statements if answer else (), len(must_have(case)))
        claims = answer.claims if answer and said(case) else []
        fault = lost or ("incomplete" if answer else "")
        return {
            "claims": [_claim(case, each) for each in claims],
            "claims_fault": lost if said(case) else "",
            "support": [
                _found(ids(case, each.passages), each.reason) if each else _found(fault=fault)
                for each in listed
            ],
        }


def said(case: Case) -> list[str]:
    """The sentences of an answer that claims something, or its text if it has no sentences."""
    if case["missing"] or case["abstained"]:
        return []
    return [each["text"] for each in case["sentences"]] or [case["answer"]]


def ids(case: Case, numbers: Sequence[int]) -> list[str]:
    """The ids of passages by their numbers."""
    known = [item["evidence_id"] for item in case["evidence"]]
    return [known[n - 1] for n in dict.fromkeys(numbers) if n <= len(known)]


def _claim(case: Case, given: ClaimSupport) -> dict[str, Any]:
    place = given.sentence - 1
    return {
        "text": given.claim,
        "sentence": place if place < len(said(case)) else -1,
        **{name: ids(case, getattr(given, name)) for name in ("states", "partly", "denies")},
        "verdict": given.verdict,
        "reason": given.reason,
    }


def _found(evidence_ids: Sequence[str] = (), reason: str = "", fault: str = "") -> dict[str, Any]:
    return {"evidence_ids": list(evidence_ids), "reason": reason, "fault": fault}


def _rule(case: Case) -> Supported:
    texts = [(item["text"], f"{item['title']}\n{item['text']}") for item in case["evidence"]]
    names = [item["evidence_id"] for item in case["evidence"]]
    cites = [each["evidence_ids"] for each in case["sentences"]] or [[]]
    claims = [
        _rule_claim(n, text, texts, [name in own for name in names])
        for n, (text, own) in enumerate(zip(said(case), cites, strict=False), start=1)
        if text.strip()
    ]
    statements = []
    for n, statement in enumerate(must_have(case), start=1):
        found = [
            place
            for place, (text, _) in enumerate(texts, start=1)
            if entails(text, statement, case["text"], THRESHOLD).verdict == "supported"
        ]
        reason = f"passages with {THRESHOLD:.0%} of the statement's words"
        statements.append(StatementSupport(n=n, reason=reason, passages=found))
    return Supported(claims=claims, statements=statements)


def _rule_claim(
    n: int, claim: str, texts: Sequence[tuple[str, str]], own: Sequence[bool]
) -> ClaimSupport:
    """What the words of passages say of a sentence; those that it cites come first."""
    found = [entails(text, claim, threshold=SENTENCE_THRESHOLD) for _, text in texts]
    best = max(found, key=lambda each: (each.verdict == "supported", each.score), default=None)
    order = sorted(range(len(found)), key=lambda place: not own[place])
    places = {word: [n + 1 for n in order if found[n].verdict == word] for word in OF_RULE}
    return ClaimSupport(
        sentence=n,
        claim=claim,
        reason=best.reason if best else "there is no evidence",
        states=places["supported"],
        partly=[],
        denies=places["contradicted"],
        verdict=OF_RULE[best.verdict] if best else "none",
    )


def check_depth(depth: int | None) -> None:
    """Raise ValueError for a depth that says nothing."""
    if depth is not None and not 1 <= depth <= MOST:
        raise ValueError(f"depth is {depth}: 1 to {MOST} work")


def relevance(case: Case) -> Mapping[str, bool | None]:
    """Whether each piece of evidence supports a vital nugget.

    None where no verdict names it while one is lost.
    """
    named = {name for each in case["support"] for name in each["evidence_ids"]}
    lost = lost_support(case) is not None
    names = (item["evidence_id"] for item in case["evidence"])
    return {name: True if name in named else None if lost else False for name in names}


def lost_support(case: Case) -> Fault | None:
    """The fault of a vital nugget whose support is not known."""
    kind = next((each["fault"] for each in case["support"] if each["fault"]), "")
    return unknown(kind) if kind else None


def unknown(kind: str) -> Fault:
    """Why it is not known what supports a statement."""
    return Fault(kind, "it is not known which evidence supports what")


def cited(case: Case) -> list[str]:
    """What the sentences of an answer cite, each once, in their order."""
    return list(dict.fromkeys(n for each in case["sentences"] for n in each["evidence_ids"]))
