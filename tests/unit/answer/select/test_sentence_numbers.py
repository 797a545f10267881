from typing import Any

from srrag.answer.select.candidates import titles
from srrag.answer.select.sentence_numbers import cited, paper_lines
from srrag.core.schema import EVIDENCE, empty_value

BLANK = {field.name: empty_value(field.type) for field in EVIDENCE.value_type}


def papers() -> list[dict[str, Any]]:
    text = "## Results\n\nPain fell (5 vs. 7 points).\nFunction rose.\n\n## Conclusion\n\nIt helps."
    return [
        BLANK | {"evidence_id": "a", "grade": "C", "year": 2015, "title": "Laser", "text": text},
        BLANK
        | {"evidence_id": "b", "title": "Casts: study protocol", "text": "We plan. [1.1] No."},
    ]


def test_sentences_are_numbered_and_headings_are_not() -> None:
    assert list(paper_lines(papers())) == [
        "Paper 1; 2015; grade C, randomised trial",
        '[1.0] "Laser"',
        '"## Results"',
        '[1.2] "Pain fell (5 vs. 7 points)."',
        '[1.3] "Function rose."',
        '"## Conclusion"',
        '[1.5] "It helps."',
        "Paper 2; PROTOCOL, NO RESULTS",
        '[2.0] "Casts: study protocol"',
        '[2.1] "We plan."',
        '[2.2] "[1.1] No."',
    ]


def test_another_passage_of_a_paper_is_no_other_paper() -> None:
    windows = [{**papers()[0], "doc_id": "d"}, {**papers()[1], "doc_id": "e"}]
    text = "Function rose.\n\n## Conclusion\n\nIt helps. Costs rose."
    more = {**papers()[0], "evidence_id": "c", "doc_id": "d", "text": text}
    told = list(paper_lines([*windows, more]))
    assert told[-2:] == ["Paper 3; more of paper 1", '[3.4] "Costs rose."']
    again = list(paper_lines([*windows, more, more | {"evidence_id": "d"}]))
    assert again == told, "what holds nothing new is left out"
    assert cited(["3.4"], [*windows, more]).evidence_ids == ["c"]


def test_a_number_is_the_place_of_its_sentence() -> None:
    evidence = papers()
    found = cited(["1.5", "[1.2]", "1.5"], evidence)
    texts = [evidence[0]["text"][each["start"] : each["end"]] for each in found.places]
    assert texts == ["It helps.", "Pain fell (5 vs. 7 points)."]
    assert (found.evidence_ids, found.invalid) == (["a"], 0)


def test_a_paper_and_a_title_are_cited_without_a_place() -> None:
    assert cited(["2", "1.0"], papers()) == (["a", "b"], [], 0)
    assert cited(["1.2", "1"], papers()) == cited(["1.2"], papers()), "the sentence keeps its place"


def test_a_range_names_each_of_its_sentences() -> None:
    evidence = papers()
    assert cited(["1.2-1.3"], evidence) == cited(["1.2–3"], evidence)
    assert len(cited(["1.2-3"], evidence).places) == 2


def test_bad_numbers_cost_themselves() -> None:
    wrong = ["1.6", "3.1", "0.1", "one", "", "1.1-1.900", "99"]
    assert cited(["1.2", *wrong], papers()) == (*cited(["1.2"], papers())[:2], len(wrong))


def test_the_title_of_a_paper_is_told_once() -> None:
    first, other = ({**each, "doc_id": each["title"]} for each in papers())
    assert list(titles([first, other, first, *papers()])) == [
        {"title": "Laser"},
        {"title": "Casts: study protocol"},
        {"more_of": 1},
        {"title": "Laser"},
        {"title": "Casts: study protocol"},
    ]
