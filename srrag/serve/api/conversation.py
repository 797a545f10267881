"""What was said before a question, read from the turns of a chat as clients send them back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from srrag.answer.write.cited import AGAIN, INSTEAD
from srrag.expand.follow_up import MAX_TURNS
from srrag.reading.conversation import label

READ_AS, SOURCES, THANKED = (
    "Read as: ",
    "\n\nSources:\n",
    "You are welcome. Ask another question when you have one.",
)
"""How a reply of this server begins and ends; thanks are no turn."""
MAX_SAID_CHARS = 6000
"""What a prompt shows of a conversation at most: some 1,500 tokens, the newest turns first."""
MAX_PAPERS = 12
"""Papers of an answer that count: all, of an answer of this server."""
MAX_LINE_CHARS, MAX_TITLED_CHARS = 300, 2000
"""What is shown of the line of a paper, and how long one may be that is read."""

_MARK = re.compile(r"\[(\d{1,3})\]")
_PAPER = re.compile(r"(?P<numbers>(?:\[\d{1,3}\])+) (?P<line>.+)")
_NAMED = re.compile(r"\((?P<key>PMID \d+|[^()]+?)(?:, \d{4})?\)$")
_WRITTEN = re.compile(r"\n\n(?:Written by [^\n]*)?\s*Not medical advice\.\s*\Z")


class Turn(NamedTuple):
    """A question, and what was answered: as this server writes it, or anybody; "" is nothing."""

    question: str
    answer: str = ""


def turns_of(messages: Iterable[tuple[str, str]]) -> tuple[list[Turn], str]:
    """The turns of a chat before the user's last message, and that message.

    `messages` are roles and texts. What neither user nor assistant says is left out.
    """
    turns: list[Turn] = []
    for role, text in messages:
        if role == "user":
            turns.append(Turn(text))
        elif role == "assistant" and turns:
            turns[-1] = Turn(turns[-1].question, f"{turns[-1].answer}\n\n{text}".strip())
    return turns[:-1], turns[-1].question if turns else ""


def conversation(turns: Sequence[Turn], asked: str) -> dict[str, Any]:
    """The value of the column `conversation`: the last turns that fit into MAX_SAID_CHARS.

    Of an answer stand its words and the papers that it cites, which are E1, E2 … in order. The last
    answer is cut where it alone is too long; an older turn that does not fit ends the conversation.
    """
    room = MAX_SAID_CHARS
    kept: list[tuple[str, str, dict[int, tuple[str, str]]]] = []
    for turn in reversed(turns[-MAX_TURNS:]):
        if turn.answer == THANKED:
            continue
        question, answer, papers = _read(turn)
        listed_chars = sum(len(line) for _, line in set(papers.values()))
        size = len(question) + len(answer) + listed_chars
        if size > room:
            if kept:
                break
            question = _cut(question, room // 4)
            answer = _cut(answer, room - len(question) - listed_chars)
        room -= size
        kept.append((question, answer, papers))
    places: dict[str, int] = {}
    listed: list[dict[str, Any]] = []
    told: list[dict[str, str]] = []
    for question, answer, papers in reversed(kept):
        for key, line in papers.values():
            if key not in places:
                places[key] = len(listed)
                listed.append({"key": key, "line": line, "recalled": False})
        labels = {number: f"[{label(places[key])}]" for number, (key, _) in papers.items()}
        pieces = _MARK.split(answer)  # every second one is a number
        pieces[1::2] = [labels.get(int(number), "") for number in pieces[1::2]]
        told.append({"question": question, "answer": "".join(pieces)})
    return {"asked": asked, "turns": told, "papers": listed}


def _read(turn: Turn) -> tuple[str, str, dict[int, tuple[str, str]]]:
    """Question and answer of a turn, and key and line of the paper behind each number."""
    answer, question = turn.answer, turn.question
    if answer.startswith(READ_AS):
        read, _, answer = answer.removeprefix(READ_AS).partition("\n\n")
        question = f"{question} (read as: {read})"
    for mark in (AGAIN, INSTEAD):
        answer = answer.rpartition(mark)[2]
    answer, _, tail = answer.partition(SOURCES)
    papers: dict[int, tuple[str, str]] = {}
    for text in tail.partition("\n\n")[0].splitlines()[:MAX_PAPERS]:
        if len(text) > MAX_TITLED_CHARS:
            continue
        if (paper := _PAPER.fullmatch(text)) and (named := _NAMED.search(text)):
            line = _cut(paper["line"], MAX_LINE_CHARS)
            papers |= {int(n): (named["key"], line) for n in _MARK.findall(paper["numbers"])}
    return question, _WRITTEN.sub("", answer).strip(), papers


def _cut(text: str, most: int) -> str:
    """A text of at most so many characters, cut between words."""
    return text if len(text) <= most else f"{text[: max(0, most - 2)].rpartition(' ')[0]} …"
