"""Answers from batch files: any file, any order, failed, expired, cut off or strange."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from srrag.core.pipeline import Pipeline
from srrag.core.spec import spec
from srrag.core.step import Place
from srrag.engine.log.completion_log import CompletionLog
from srrag.engine.openai import batch_session
from srrag.engine.openai.engine import HttpEngine
from srrag.engine.openai.protocol import estimate_tokens
from srrag.llm.completion import Account, AnswersAwaited, EngineStopped
from srrag.runner.engines import engines_here
from srrag.runner.runner import LocalRunner, Runner
from srrag.serve.settings import ServeSettings
from srrag.serve.snapshot import SharedEngines
from srrag.storage.store import Store
from srrag.systems.ideprag.search_topics import FindSearchWords
from tests.batch_runner import Request, answer, completed, expired, of_openai, of_vllm, requests
from tests.engines import AskNumbers, good, prompt
from tests.toys import number_parts, plan

SIZES = [5, 4, 3]
COUNT = sum(SIZES)


def number(request: Request) -> str:
    return str(request["body"]["messages"][1]["content"])


def answered(request: Request) -> Any:
    return of_openai(request, 200, completed(request, good(number(request))))


def engine(folder: Path, **fields: Any) -> HttpEngine:
    return HttpEngine(**{"model": "m", "folder": str(folder / "batch"), **fields})


def run(folder: Path, runner: Runner | None = None, **fields: Any) -> list[str]:
    """Ask for a word for each number; returns the words, or the reasons of rejected rows."""
    account = Account(**fields.pop("account", {}))
    store = Store(folder / "root")
    store.create()
    parts = number_parts(store, SIZES)
    plan_ = plan(AskNumbers(engine=engine(folder, **fields)), batch_rows=2, cpus=0.1)
    at = Place(root=store.root, account=account)
    (runner or LocalRunner()).run(plan_, store, parts, at)
    tables = [store.read_part("s1", plan_.fingerprint("s1"), part) for part in parts]
    return [row["word"] or row["reject"]["reason"] for table in tables for row in table.to_pylist()]


def awaited(folder: Path, **fields: Any) -> str:
    with pytest.raises(AnswersAwaited) as caught:
        run(folder, **fields)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def words() -> list[str]:
    return [f"n{n}." for n in range(COUNT)]


def asked(folder: Path) -> Counter[str]:
    """How often each prompt stands in a file."""
    return Counter(request["custom_id"] for request in requests(folder / "batch"))


def test_all_prompts_of_a_stage_go_to_one_file_and_the_run_goes_on_from_the_answers(
    tmp_path: Path,
) -> None:
    line = awaited(tmp_path, usd_per_mtok_in=1e3, usd_per_mtok_out=0.0)
    assert f"submit prompts-0001.jsonl as a batch (or to vllm run-batch): {COUNT} prompts" in line
    told = [
        estimate_tokens(*(message["content"] for message in request["body"]["messages"]))
        for request in requests(tmp_path / "batch")
    ]
    assert f"about {sum(told):,} tokens in, at most {COUNT * 1024:,} out, " in line
    assert f", {sum(told) * 1e3 / 1e6:.2f} USD;" in line
    assert answer(tmp_path / "batch", answered) == COUNT
    assert run(tmp_path) == words()
    totals = CompletionLog(tmp_path / "root" / "completions").totals()
    assert (totals.completions, totals.faults, totals.paid_twice) == (COUNT, {}, 0)
    assert totals.tokens_in > 0
    for path in (tmp_path / "batch").glob("*.jsonl"):
        path.unlink()
    assert run(tmp_path) == words(), "the log holds the answers now"


def test_a_prompt_is_the_request_that_http_sends_under_the_key_of_its_completion(
    tmp_path: Path,
) -> None:
    awaited(tmp_path)
    for request in requests(tmp_path / "batch"):
        assert (request["method"], request["url"]) == ("POST", "/v1/chat/completions")
        assert request["body"]["model"] == "m"
        assert request["body"]["response_format"]["type"] == "json_schema"
        assert len(bytes.fromhex(request["custom_id"])) == 16
    assert spec(engine(tmp_path)) == spec(HttpEngine(model="m")), "an online engine can finish"


def test_the_same_command_before_the_answers_asks_nothing_again(tmp_path: Path) -> None:
    awaited(tmp_path)
    line = awaited(tmp_path)
    assert f"answers are still missing of prompts-0001.jsonl ({COUNT})" in line
    assert "submit" not in line
    assert set(asked(tmp_path).values()) == {1}


def test_answers_come_in_parts_and_in_any_order(tmp_path: Path) -> None:
    awaited(tmp_path)
    batch = tmp_path / "batch"
    rows = [json.dumps(answered(request)) for request in requests(batch)][::-1]
    (batch / "zz.jsonl").write_text("\n".join(rows[:5]), "utf-8")
    assert f"prompts-0001.jsonl ({COUNT - 5})" in awaited(tmp_path)
    (batch / "aa.jsonl").write_text("\n\n".join(rows[5:]) + "\n", "utf-8")
    assert run(tmp_path) == words()
    assert set(asked(tmp_path).values()) == {1}


def test_the_format_of_vllm_is_read_with_its_failures(tmp_path: Path) -> None:
    awaited(tmp_path)

    def row(request: Request) -> Any:
        if number(request) == "n3.":
            error = {"error": {"message": "maximum context length is 10", "code": 400}}
            return of_vllm(request, None, error)
        return of_vllm(request, completed(request, good(number(request))))

    answer(tmp_path / "batch", row)
    expected = words()
    expected[3] = "too_long"
    assert run(tmp_path) == expected, "a prompt that cannot fit is not asked again"
    assert set(asked(tmp_path).values()) == {1}


def test_expired_rows_are_asked_again_a_bounded_number_of_times(tmp_path: Path) -> None:
    batch = tmp_path / "batch"
    for serial in range(3):
        line = awaited(tmp_path)

        def row(request: Request, serial: int = serial) -> Any:
            late = number(request) == "n7."
            return expired(request, str(serial)) if late else answered(request)

        assert ("batch_expired" in line) == (serial > 0)
        rows = {request["custom_id"]: row(request) for request in requests(batch)}
        (batch / f"out{serial}.jsonl").write_text(
            "".join(json.dumps(each) + "\n" for each in rows.values()), "utf-8"
        )
    for serial in range(3, 6):  # the second try of the step, which has a key of its own
        awaited(tmp_path)
        late = [r for r in requests(batch) if number(r) == "n7."]
        (batch / f"out{serial}.jsonl").write_text(
            json.dumps(expired(late[-1], str(serial))) + "\n", "utf-8"
        )
    expected = words()
    expected[7] = "server"
    assert run(tmp_path) == expected
    assert sorted(asked(tmp_path).values()) == [1] * (COUNT - 1) + [3, 3]


def test_the_same_error_file_twice_counts_once(tmp_path: Path) -> None:
    awaited(tmp_path)
    batch = tmp_path / "batch"
    answer(batch, expired)
    (batch / "copy.jsonl").write_bytes((batch / "0-output.jsonl").read_bytes())
    assert "prompts-0002.jsonl" in awaited(tmp_path)
    assert "still missing of prompts-0002.jsonl" in awaited(tmp_path)
    assert set(asked(tmp_path).values()) == {2}


def test_an_answer_of_no_use_gets_its_second_try_in_the_next_round(tmp_path: Path) -> None:
    awaited(tmp_path)

    def row(request: Request) -> Any:
        text = "no json" if number(request) in ("n1.", "n2.") else good(number(request))
        return of_openai(request, 200, completed(request, text))

    answer(tmp_path / "batch", row)
    assert "prompts-0002.jsonl as a batch (or to vllm run-batch): 2 prompts" in awaited(tmp_path)
    answer(tmp_path / "batch", lambda r: of_openai(r, 200, completed(r, good(number(r)))))
    assert run(tmp_path) == words()
    totals = CompletionLog(tmp_path / "root" / "completions").totals()
    assert (totals.completions, totals.faults) == (COUNT, {"invalid_json": 2})


def test_a_file_that_is_cut_off_costs_its_last_row_and_is_named(tmp_path: Path) -> None:
    awaited(tmp_path)
    batch = tmp_path / "batch"
    answer(batch, answered)
    whole = (batch / "0-output.jsonl").read_bytes()
    (batch / "0-output.jsonl").write_bytes(whole[:-40])
    line = awaited(tmp_path)
    assert "prompts-0001.jsonl (1)" in line
    assert f"1 lines are unreadable, such as 0-output.jsonl:{COUNT}" in line
    (batch / "0-output.jsonl").write_bytes(whole)
    assert run(tmp_path) == words()


def test_the_first_of_two_answers_counts_and_unknown_ones_are_said(tmp_path: Path) -> None:
    awaited(tmp_path)
    batch = tmp_path / "batch"
    every = requests(batch)
    rows = [answered(request) for request in every[:-1]]
    rows += [of_openai(every[0], 200, completed(every[0], good("later")), "x")]
    rows += [answered({**every[0], "custom_id": "ff" * 16}), {"custom_id": 7}, ["row"], None]
    (batch / "out.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    line = awaited(tmp_path)
    assert "1 answers are to no prompt in the folder" in line
    assert "3 lines are unreadable" in line
    (batch / "rest.jsonl").write_text(json.dumps(answered(every[-1])), "utf-8")
    assert sorted(run(tmp_path)) == sorted(words())


@pytest.mark.parametrize(
    ("told", "taken"),
    [("m", True), ("owner/m", True), ("m-2024-07-18", True), ("", True), (None, True),
     ("other", False), ("owner/n", False)],
)  # fmt: skip
def test_answers_of_another_model_are_not_taken(
    tmp_path: Path, told: str | None, taken: bool
) -> None:
    awaited(tmp_path)
    answer(
        tmp_path / "batch",
        lambda r: of_openai(r, 200, completed(r, good(number(r)), model=told)),
    )
    if taken:
        assert run(tmp_path) == words()
    else:
        line = awaited(tmp_path)
        assert f"{COUNT} answers are of model {told} and not of m: not taken" in line
        assert f"prompts-0001.jsonl ({COUNT})" in line


def test_prompts_beyond_the_ceiling_wait_for_the_answers_before_them(tmp_path: Path) -> None:
    most = {"max_tokens": 4000}
    line = awaited(tmp_path, account=most)
    first = asked(tmp_path).total()
    assert 0 < first < COUNT
    assert f"{COUNT - first} prompts wait for the ceiling of the budget" in line
    assert awaited(tmp_path, account=most) and asked(tmp_path).total() == first
    for _ in range(COUNT):
        answer(tmp_path / "batch", answered)
        try:
            assert run(tmp_path, account=most) == words()
            break
        except AnswersAwaited:
            continue
    totals = CompletionLog(tmp_path / "root" / "completions").totals()
    assert totals.tokens_in + totals.tokens_out <= 4000
    assert set(asked(tmp_path).values()) == {1}


def test_a_ceiling_below_one_prompt_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(EngineStopped, match=r"budget.max_tokens=50 is spent"):
        run(tmp_path, account={"max_tokens": 50})


def test_files_stay_within_the_bounds_of_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_session, "MAX_ROWS", 5)
    line = awaited(tmp_path)
    assert "submit prompts-0001.jsonl, prompts-0002.jsonl, prompts-0003.jsonl" in line
    assert set(asked(tmp_path).values()) == {1}


def test_prompts_are_on_disk_before_they_have_their_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[bytes] = []
    monkeypatch.setattr(
        os, "fsync", lambda file: flushed.append(Path(f"/proc/self/fd/{file}").read_bytes())
    )
    writer = batch_session.PromptWriter(tmp_path)
    writer.append("a", b"{}")
    link = os.link

    def named(temporary: Path, path: Path) -> None:
        assert flushed == [temporary.read_bytes()] != [b""]
        link(temporary, path)

    monkeypatch.setattr(os, "link", named)
    writer.finish()
    assert len(writer.written) == 1


def test_a_prompt_that_is_asked_again_in_a_run_stands_in_its_file_once(tmp_path: Path) -> None:
    only = engine(tmp_path)
    with (
        pytest.raises(AnswersAwaited, match="1 prompts, about"),
        engines_here([only], Place(root=tmp_path)) as engines,
    ):
        for _ in range(3):
            engines.clients[only].complete([prompt("a")], 0, [True])
    assert [*asked(tmp_path).values()] == [1]


def test_two_engines_tell_both_folders(tmp_path: Path) -> None:
    one = engine(tmp_path)
    two = HttpEngine(model="n", folder=str(tmp_path / "other"))
    with (
        pytest.raises(AnswersAwaited) as caught,
        engines_here([one, two], Place(root=tmp_path)) as engines,
    ):
        for each in (one, two):
            engines.clients[each].complete([prompt("a")], 0, [True])
    assert str(tmp_path / "batch") in str(caught.value)
    assert str(tmp_path / "other") in str(caught.value)


def test_a_server_refuses_to_wait_for_files(tmp_path: Path) -> None:
    pipeline = Pipeline(rank=(), answer=(FindSearchWords(engine=engine(tmp_path)),))
    settings = ServeSettings(root=tmp_path, pipelines={"p": pipeline})
    with pytest.raises(ValueError, match=r"engine\.folder: a server cannot wait"):
        SharedEngines(settings)
