"""Sentences with windows that do or do not support them, from data with judgements of people.

Each pair has a kind and belongs to a question or article (`group`); the half of a group, `develop`
or `blind`, follows from its hash, so that no question or article is in both.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from srrag.answer.sentences import split_sentences
from srrag.answer.statements import effects, numbers
from srrag.answer.support_signs import Window

GOOD = ("edited", "joined", "finding", "ideal", "kqa")
BAD = (
    "direction", "number", "negation", "population", "turned_finding", "other_sentences",
    "other_article", "ideal_not_gold", "kqa_not_entailed",
)  # fmt: skip


class Pair(NamedTuple):
    """A sentence, the window that it would cite, and whether that supports it."""

    kind: str
    good: bool
    group: str
    sentence: str
    window: Window

    @property
    def blind(self) -> bool:
        """Whether it belongs to the half that is evaluated once."""
        return _draw("half", self.group) % 2 == 1

    def in_(self, many: int) -> bool:
        """Whether it is in a sample of one in so many questions and articles, K-QA whole."""
        return self.kind.startswith("kqa") or _draw("share", self.group) % many == 0


def pairs(data: Path) -> list[Pair]:
    """All pairs of the folder of public data, in a fixed order."""
    return [*_findings(data), *_edited(data), *_ideal(data), *_kqa(data)]


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _draw(*names: object) -> int:
    text = "|".join(map(str, names)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=6).digest(), "big")


# Evidence Inference: what experts say of a trial, and the sentence that they took it from.

_SAID = {
    "significantly increased": "{I} significantly increased {O} compared with {C}.",
    "significantly decreased": "{I} significantly decreased {O} compared with {C}.",
    "no significant difference": "There was no significant difference in {O} between {I} and {C}.",
}
_TURNED = {
    "significantly increased": "significantly decreased",
    "significantly decreased": "significantly increased",
    "no significant difference": "significantly increased",
}


def _findings(data: Path) -> Iterator[Pair]:
    """Yield each finding with its evidence, reversed, and with other sentences."""
    folder = data / "evidence_inference"
    articles = {row["id"]: row for row in _rows(folder / "articles.jsonl")}
    for prompt in _rows(folder / "prompts.jsonl"):
        article = articles.get(prompt["article_id"])
        if not (article and prompt["label"] and prompt["evidence"]):
            continue
        parts = {"I": prompt["intervention"], "C": prompt["comparator"], "O": prompt["outcome"]}
        if any(map(str.isdigit, "".join(parts.values()))):
            continue  # a dose or a time point that another part of the article names
        said, turned = (
            _SAID[label].format(**parts) for label in (prompt["label"], _TURNED[prompt["label"]])
        )
        evidence = " ".join(prompt["evidence"][0]["text"].split())
        section = prompt["evidence"][0].get("abstract_section")
        texts = [(each["heading"], each["text"]) for each in article["sections"]]
        heading, text = texts[section] if section is not None else ("Results", evidence)
        window = Window(article["title"], heading, text)
        group = article["id"]
        yield Pair("finding", True, group, said, window)
        yield Pair("turned_finding", False, group, turned, window)
        others = [
            sentence.text
            for head, body in texts
            for sentence in split_sentences(body, head)
            if sentence.role not in ("conclusion",) and not _shares(sentence.text, evidence)
            and not _shares(sentence.text, parts["O"])
        ]  # fmt: skip
        if others:
            yield Pair(
                "other_sentences", False, group, said,
                Window(article["title"], "", " ".join(others)),
            )  # fmt: skip


def _shares(a: str, b: str) -> bool:
    """Whether two texts share half of the shorter one's words."""
    one, other = ({*re.findall(r"\w{4,}", text.casefold())} for text in (a, b))
    return len(one & other) >= 0.5 * max(1, min(len(one), len(other)))


# Sentences of abstracts, edited as a careful writer may, or turned into something else.

_SWAPS = (
    "increased|decreased", "increase|decrease", "increases|decreases", "higher|lower",
    "greater|smaller", "more|less", "improved|worsened", "improves|worsens", "better|worse",
    "reduced|increased", "reduces|increases", "reduction|increase", "reduce|increase",
    "longer|shorter", "superior|inferior", "effective|ineffective", "improvement|deterioration",
    "lower|higher", "decreased|increased", "decrease|increase", "fewer|more", "less|more",
    "shorter|longer", "worse|better", "improve|worsen", "rose|fell", "benefit|harm",
)  # fmt: skip
_SWAP = {a: b for a, _, b in (pair.partition("|") for pair in _SWAPS)}
_SWAP_WORD = re.compile(rf"\b(?:{'|'.join(sorted(_SWAP, key=len, reverse=True))})\b")
_AUXILIARY = re.compile(r"\b(?:was|were|is|are|did|does|should|can|could|may|has|have|had)\b")
_NOT = re.compile(r"\b(?:not|no) ")
_NUMBER = re.compile(r"(?<![\w.,–-])\d+(?:\.\d+)?(?![\w.,]*\d)(?!\w)")
_PEOPLE = (
    ("children", "older adults"), ("adolescents", "older adults"), ("women", "men"),
    ("older adults", "children"), ("elderly", "paediatric"), ("men", "women"),
    ("adults", "infants"), ("infants", "adults"), ("girls", "boys"), ("boys", "girls"),
)  # fmt: skip


def turned_direction(text: str) -> str:
    """Reverse the first word of direction in a sentence; "" if it has none."""
    return _SWAP_WORD.sub(lambda m: _SWAP[m[0]], text, count=1) if _SWAP_WORD.search(text) else ""


def turned_negation(text: str) -> str:
    """Remove the negation of a sentence, or add one; "" if neither works."""
    if _NOT.search(text):
        return _NOT.sub("", text, count=1)
    found = _AUXILIARY.search(text)
    return f"{text[: found.end()]} not{text[found.end() :]}" if found else ""


def turned_number(text: str, window: str) -> str:
    """The sentence with one number that the window does not hold, "" if it has none."""
    found = [*_NUMBER.finditer(text)]
    if not found:
        return ""
    match = found[_draw("number", text) % len(found)]
    for add in range(1, 60):
        whole, point, rest = match[0].partition(".")
        new = f"{int(whole) + add}{point}{rest}"
        if new not in window:
            return text[: match.start()] + new + text[match.end() :]
    return ""


def turned_population(text: str) -> str:
    """The sentence about other people, "" if it names none."""
    for one, other in _PEOPLE:
        if found := re.search(rf"\b{one}\b", text):
            return text[: found.start()] + other + text[found.end() :]
    return ""


_OPENERS = re.compile(
    r"^(?:In conclusion|In summary|Overall|Moreover|Furthermore|However|In addition|Additionally)"
    r",? |^(?:We (?:found|conclude|observed)|(?:The|Our) results (?:show|suggest|indicate)(?:ed)?"
    r"|This study (?:shows|suggests|demonstrates)) that ",
)
_BRACKETS = re.compile(r"\s?\([^()]{0,200}\)")
_REWORDED = (("compared with", "versus"), ("compared to", "versus"), (" significantly", ""),
             ("in comparison with", "compared with"), ("patients", "people"),
             ("demonstrated", "showed"), ("resulted in", "led to"))  # fmt: skip


def edited(text: str) -> str:
    """The sentence without brackets and opening, in a few other words."""
    short = _OPENERS.sub("", _BRACKETS.sub("", text))
    for old, new in _REWORDED:
        short = short.replace(old, new)
    return short[:1].upper() + short[1:]


def _edited(data: Path) -> Iterator[Pair]:
    """One sentence an article: edited, and turned four ways; and with a near article's window."""
    articles = _rows(data / "evidence_inference" / "articles.jsonl")
    chosen = [found for article in articles if (found := _chosen(article))]
    near = _near([sentence for _, sentence, _, _ in chosen], [window for _, _, _, window in chosen])
    for (group, sentence, after, window), other in zip(chosen, near, strict=True):
        short = edited(sentence)
        yield Pair("edited", True, group, short, window)
        if after:
            second = after[0].lower() + after[1:] if after[1:2].islower() else after
            yield Pair("joined", True, group, f"{short.rstrip('. ')}, and {second}", window)
        for kind, turned in (
            ("direction", turned_direction(short)), ("negation", turned_negation(short)),
            ("number", turned_number(short, window.text)), ("population", turned_population(short)),
        ):  # fmt: skip
            if turned:
                yield Pair(kind, False, group, turned, window)
        yield Pair("other_article", False, group, short, other)


def _chosen(article: dict[str, Any]) -> tuple[str, str, str, Window] | None:
    """A sentence of results or conclusion that states something, the one after it, its window."""
    text = "\n\n".join(f"{each['heading']}: {each['text']}" for each in article["sections"])
    found = split_sentences(text)
    telling = [
        n
        for n, each in enumerate(found)
        if each.role in ("result", "conclusion") and (effects(each.text) or numbers(each.text))
        and 8 <= each.text.count(" ") <= 60
    ]  # fmt: skip
    if not telling:
        return None
    n = telling[_draw("sentence", article["id"]) % len(telling)]
    after = found[n + 1].text if n + 1 < len(found) and n + 1 in telling else ""
    return article["id"], found[n].text, after, Window(article["title"], "", text)


def _near(sentences: list[str], windows: list[Window]) -> list[Window]:
    """For each sentence the most alike window of another article, by TF-IDF."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    counts = TfidfVectorizer(stop_words="english", sublinear_tf=True)
    held = counts.fit_transform([f"{each.title} {each.text}" for each in windows])
    near = (counts.transform(sentences) @ held.T).toarray()
    near[range(len(near)), range(len(near))] = -1.0
    return [windows[n] for n in near.argmax(axis=1)]


# BioASQ: what experts answered, with their snippets, and with passages that are none of them.


def _ideal(data: Path) -> Iterator[Pair]:
    """Sentences of ideal answers with all gold passages of their question, and as many others."""
    passages: defaultdict[str, dict[bool, list[str]]] = defaultdict(lambda: {True: [], False: []})
    for name in ("train", "dev"):
        for row in _rows(data / "evidence_filter" / f"{name}.jsonl"):
            if row["neg_type"] != "random":
                passages[row["query_id"]][row["support"] == "Yes"].append(row["passage"])
    for row in _rows(data / "bioasq" / "answers.jsonl"):
        given = passages.get(row["id"])
        if not given or not row["ideal_answer"]:
            continue
        told = [each.text for each in split_sentences(row["ideal_answer"][0])]
        told = [each for each in told if each.count(" ") >= 5][:2]
        for good in (True, False):
            text = "\n\n".join(given[good][: max(1, len(given[True]))])
            kind = "ideal" if good else "ideal_not_gold"
            held = {cue.value for cue in numbers(text)}
            for each in told if text else ():
                # A number that none of the gold passages holds is from elsewhere.
                if not good or held.issuperset(cue.value for cue in numbers(each)):
                    yield Pair(kind, good, row["id"], each, Window("", "", text))


# K-QA: statements that physicians found, or did not find, in an answer.


def _kqa(data: Path) -> Iterator[Pair]:
    for row in _rows(data / "kqa" / "nli.jsonl"):
        good = row["label"] == "Entailment"
        kind = "kqa" if good else "kqa_not_entailed"
        yield Pair(kind, good, row["question"], row["nugget"], Window("", "", row["answer"]))
