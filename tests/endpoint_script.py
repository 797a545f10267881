"""Answers of the test endpoint as the rules give them, with slips or without.

What is answered follows from the messages alone: the same prompt has the same answer in every
run and at every try, so that tables of two runs can be compared.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from typing import Any

from srrag.config.compose import configure
from srrag.core.ontology import Ontology
from srrag.core.spec import build
from srrag.corpus.chunk import pack_units
from srrag.extract.numbered import NumberedBlock
from srrag.extract.rule_lines import rule_lines
from srrag.reading.mentions import find_mentions
from tests.sample_json import READING, answer_by_schema, asked_schema, read_papers, supported

BAD_SHARE = 0.06
"""Of prompts, whose first answer cannot be used; of a third of them none can."""
TARGET_TOKENS = 320

_ONCE_MORE = re.compile(r"\n\n[^\n]+ Answer once more, with one JSON object [^\n]+\Z")


def answer_by_rules(request: dict[str, Any]) -> str:
    """Group blocks, grade, extract and answer as rules would; other schemas are filled by words."""
    user, _ = _asked(request)
    match (asked_schema(request) or {}).get("title"):
        case "BlockGroups":
            return json.dumps({"groups": _groups(user)})
        case "GradeAnswer":
            return json.dumps({"grade": "", "reason": "no rule found a study design"})
        case "Extraction":
            return json.dumps(_extraction(user))
        case "CitedAnswer":
            return json.dumps(_cited(user))
        case title if title in READING:
            return read_papers(request)
        case "CheckedAnswer":
            return supported(request)
    return answer_by_schema(request)


def answer_with_more_slips(request: dict[str, Any]) -> str:
    """So many that every kind of them occurs among a few hundred prompts."""
    return answer_with_slips(request, bad_share=0.24)


def answer_with_slips(request: dict[str, Any], bad_share: float = BAD_SHARE) -> str:
    """Answer by rules, but for some prompts whose first answer, or every one, is bad."""
    user, again = _asked(request)
    drawn = hashlib.blake2b(user.encode("utf-8", "replace"), digest_size=4).digest()
    draw = int.from_bytes(drawn, "big") / 2**32
    text = answer_by_rules(request)
    first = len(request["messages"]) == 2 and not again
    if draw < bad_share / 3 or (first and draw < bad_share):
        kinds = [text[: len(text) // 2], "I am sorry, I cannot help.", '{"wrong": 1}', "none"]
        return kinds[drawn[0] % len(kinds)]
    return _with_wrong_claims(text) if draw < 0.5 else text


def _asked(request: dict[str, Any]) -> tuple[str, bool]:
    """What is asked, without the line that asks once more, and whether there is that line."""
    user = request["messages"][1]["content"]
    plain = _ONCE_MORE.sub("", user)
    return plain, plain != user


def _with_wrong_claims(text: str) -> str:
    """A few lines of a sentence that is not there, or of an unknown type: those are rejected."""
    answer = json.loads(text)
    lines = answer.get("entities", [])
    if len(lines) > 5:
        lines[1] = re.sub(r"@\d+", "@999", lines[1])
    if len(lines) > 10:
        lines[3] = re.sub(r" \w+:", " Starship:", lines[3], count=1)
    return json.dumps(answer)


def _groups(user: str) -> list[list[int]]:
    blocks = [json.loads(line) for line in user.split("\n") if line.startswith('{"id": ')]
    return pack_units([([block["id"]], block["tokens"]) for block in blocks], TARGET_TOKENS)


def _extraction(user: str) -> dict[str, list[str]]:
    found = re.search(r"<document>\n(.*)\n</document>", user, re.DOTALL)
    assert found, user[:200]
    text, spans = "", {}
    for number, sentence in re.findall(r"^\[(\d+)\] (.*)$", found[1], re.MULTILINE):
        if number != "0":
            spans[int(number)] = (len(text), len(text) + len(sentence))
            text += f"{sentence}\n"
    lines: list[str] = []
    if spans:
        (lines,) = rule_lines([NumberedBlock(text, "", (), spans)], _pico(), find_mentions)
    related = [line for line in lines if ":" not in line.split("@")[0]]
    entities = [line for line in lines if line not in related]
    return {"entities": entities, "relations": related, "findings": [], "proposals": []}


@cache
def _pico() -> Ontology:
    ontology = build(configure("build", ["root=none"])["schema"])
    assert isinstance(ontology, Ontology)
    return ontology


def _cited(user: str) -> dict[str, Any]:
    """The first sentence of the first evidence, with its number."""
    evidence = [json.loads(line) for line in user.split("\n") if line.startswith('{"n": ')]
    said = [
        {"text": " ".join(item["text"].split(". ")[0].split())[:300] + ".", "cites": [item["n"]]}
        for item in evidence[:1]
    ]
    return {
        "answer": said, "evidence": [], "limits": [], "insufficient": not said, "missing": "",
    }  # fmt: skip
