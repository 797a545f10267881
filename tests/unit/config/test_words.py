"""What a person types in short means these overrides, and a file beside a root adds its own."""

from __future__ import annotations

from pathlib import Path

import pytest

import srrag
from jobs import JOBS
from srrag.config.compose import configure
from srrag.config.keys import choices, reference
from srrag.config.words import CHOICES, CONF, choices_said, in_full, model_of
from srrag.core.errors import UsageError
from srrag.model import linear
from srrag.storage.store import Store


@pytest.mark.parametrize(
    ("word", "model", "address", "key"),
    [
        ("ollama/llama3.3:70b", "llama3.3:70b", "http://127.0.0.1:11434/v1", None),
        ("openai/gpt-5", "gpt-5", "https://api.openai.com/v1", "OPENAI_API_KEY"),
        ("http://host:8000/v1#a/b", "a/b", "http://host:8000/v1", None),
    ],
)
def test_a_model_is_named_in_one_word(
    word: str, model: str, address: str, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OLLAMA_HOST", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    engine = configure("ask", [f"model={word}", "question=x"])["engine"]
    assert engine["_target_"] == "HttpEngine"
    assert (engine["model"], engine["base_url"], engine["api_key_env"]) == (model, address, key)


def test_the_usual_variables_say_where_a_model_is() -> None:
    for host, address in (
        ("box:1", "http://box:1/v1"), ("box", "http://box:11434/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"), ("https://h/o/", "https://h/o/v1"),
    ):  # fmt: skip
        assert f"engine.base_url={address}" in model_of("ollama/m", {"OLLAMA_HOST": host})
    assert "engine.base_url=https://h/v1" in model_of(
        "openai/m", {"OPENAI_BASE_URL": "https://h/v1"}
    )
    assert model_of("vllm:/models/m", {}) == ["engine=vllm", "engine.model=/models/m"]


@pytest.mark.parametrize("word", ["", "ollama/", "gpt-5", "http://host:8000/v1", "ftp://h#m"])
def test_a_word_that_names_no_model_is_refused_with_the_forms(word: str) -> None:
    with pytest.raises(UsageError, match=r"model=.*ollama/NAME"):
        in_full("ask", [f"model={word}"])


def test_a_later_key_overrides_what_a_model_says() -> None:
    config = configure("ask", ["model=ollama/m", "engine.base_url=http://x/v1", "question=x"])
    assert config["engine"]["base_url"] == "http://x/v1"


def test_arguments_without_a_key_have_the_place_that_one_expects(tmp_path: Path) -> None:
    (tmp_path / "pubmed26n0001.xml.gz").touch()
    assert in_full("ask", ["Is 5 = 5 mg?"]) == ["question=Is 5 = 5 mg?"]
    assert in_full("build", ["papers/"]) == ["corpus=folder", "corpus.path=papers/"]
    assert in_full("build", ["a.jsonl"])[0] == "corpus=jsonl"
    assert in_full("build", [str(tmp_path)])[0] == "corpus=pubmed"
    (tmp_path / "corpus.jsonl").touch()
    assert in_full("build", [str(tmp_path)])[0] == "corpus=beir"
    assert in_full("build", ["corpus=beir", "x"]) == ["corpus=beir", "corpus.path=x"]
    assert in_full("verify", ["R"]) == ["root=R"]


@pytest.mark.parametrize("job", ["evaluate", "sweep"])
def test_what_is_measured_is_the_root_of_this_folder_if_there_is_one(
    job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert in_full(job, ["bench=nli"]) == ["bench=nli"]
    (tmp_path / ".srrag").mkdir()
    (tmp_path / ".srrag/srrag.json").touch()
    assert in_full(job, ["bench=beir"]) == ["root=.srrag", "bench=beir"]
    assert in_full(job, ["bench=beir", "root=R"]) == ["bench=beir", "root=R"]
    (tmp_path / CHOICES).write_text("model: openai/m")
    assert "engine.model=m" in choices_said(job, ["bench=beir"])


def test_a_question_without_quotes_is_refused() -> None:
    with pytest.raises(UsageError, match="does it help: one argument is needed; put a question in"):
        in_full("ask", ["does", "it", "help"])


def test_one_argument_in_two_ways_is_refused() -> None:
    with pytest.raises(UsageError, match="one of them"):
        in_full("ask", ["a", "question=b"])


def test_the_file_beside_a_root_is_read_by_its_jobs(tmp_path: Path) -> None:
    (tmp_path / CHOICES).write_text("model: ollama/m\npipeline: bm25\nstatus: show\n")
    root = f"root={tmp_path}/R"
    config = configure("ask", [root, "question=x"])
    assert config["engine"]["model"] == "m" and config["status"] == "show"
    assert [*config["pipeline"]["rank"]] == ["sparse"]
    own = configure("ask", [root, "question=x", "engine=rules", "pipeline=hybrid"])
    assert own["engine"] == {"_target_": "Rules"} and "fuse" in own["pipeline"]["rank"]
    below = configure("ask", [root, "question=x", "engine.seed=4", "+pipeline.off=1"])
    assert (below["engine"]["model"], below["engine"]["seed"]) == ("m", 4)
    assert [*below["pipeline"]["rank"]] == ["sparse"], "a key below a choice only changes it"
    assert configure("build", [root])["engine"]["model"] == "m"
    assert "engine.model=m" in choices_said("ask", [root, "question=x"])
    assert choices_said("ask", [f"root={tmp_path}/other/R", "question=x"]) == ""
    assert "fuse" in configure("evaluate", [root, "bench=sample"])["pipeline"]["rank"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a", "keys with values"),
        ("a: [", r"srrag\.yaml: "),
        ("colour: red", "colour: no job"),
        ("engine: {base_url: http://else/v1}", "base_url: say it with the command"),
    ],
)
def test_a_bad_file_of_choices_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / CHOICES).write_text(text)
    with pytest.raises(UsageError, match=said):
        configure("ask", [f"root={tmp_path}/R", "question=x"])


def test_init_writes_the_choices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "rates", lambda: {"float32": 50.0})
    root = f"root={tmp_path}/R"
    srrag.run("init", root, "arithmetic=float32", "model=ollama/m")
    srrag.run("init", root, "arithmetic=float32", "pipeline=bm25")
    assert (tmp_path / CHOICES).read_text() == "model: ollama/m\npipeline: bm25\n"
    with pytest.raises(UsageError, match="model=gpt"):
        srrag.run("init", root, "arithmetic=float32", "model=gpt")


def test_choices_for_a_root_at_an_address_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SRRAG_CACHE", str(tmp_path))
    with pytest.raises(UsageError, match="root=s3://b/S: choices are kept beside a folder, not"):
        srrag.run("init", "root=s3://b/S", "arithmetic=float32", "model=ollama/m")
    assert not list(tmp_path.rglob(CHOICES))


def test_choices_are_made_of_a_root_that_stands_too(tmp_path: Path) -> None:
    Store(tmp_path / "R").create()
    (tmp_path / "R" / "builds").mkdir()
    told = srrag.run("init", f"root={tmp_path}/R", "model=ollama/m")
    assert told["embedder"] == "" and (tmp_path / CHOICES).read_text() == "model: ollama/m\n"
    assert srrag.run("init", f"root={tmp_path}/R")["embedder"] == ""
    assert (tmp_path / CHOICES).read_text() == "model: ollama/m\n"


def test_every_choice_says_what_it_is() -> None:
    assert [(group, choice) for group, choice, said, _ in choices() if not said] == []


def test_the_reference_has_every_job_and_every_field() -> None:
    page = reference(JOBS)
    for job in JOBS:
        assert f"## srrag {job}\n" in page
        assert (CONF / f"{job}.yaml").read_text("utf-8").strip() in page
    assert "**`corpus=jsonl`**" in page and "`title_keys` = ('title',)" in page
