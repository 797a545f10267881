"""The examples of responses: written anew by `python -m tests.unit.serve.examples`.

Each is what a server answers on the packaged sample, but for lists that are cut to what is cited.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from srrag.serve.api.openapi import EXAMPLE_ID, EXAMPLES
from tests.conftest import run_build
from tests.findings_root import PREVENTS, with_findings
from tests.serve.stored import store_runs
from tests.unit.serve.serving import CAST, events, served, settings
from tests.unranked import WITHOUT_BETR

PIPELINE = ("pipeline=srrag", *WITHOUT_BETR)
KEY = {"authorization": "Bearer secret", "x-request-id": EXAMPLE_ID}
KEY_HASH = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
ASKED = {"question": CAST, "options": {"trace": True, "clinical": True}}
CHAT = {"model": "srrag", "messages": [{"role": "user", "content": CAST}]}


def real(root: Path, folder: Path) -> dict[str, str]:
    """What a server of a built root answers, by the file that shows it."""
    keys = folder / "keys"
    keys.write_text(f"clinic {KEY_HASH} admin\n")
    told = settings(store_runs(root, folder), f"api_keys={keys}", *PIPELINE)
    with served(told, headers=KEY) as (client, _):
        found = {f"{name}.json": as_json(cut(body)) for name, body in replies(client).items()}
        heard = client.post("/v1/answers/stream", json={"question": CAST}).text
        chunks = client.post("/v1/chat/completions", json={**CHAT, "stream": True}).text
    with served(settings(with_findings(root, folder / "read"), "pipeline=bm25")) as (client, _):
        made = client.post("/v1/synthesis", json={"question": PREVENTS}).raise_for_status().json()
    found["synthesis.json"] = as_json(made | {"plots": [f"{each[:60]}…" for each in made["plots"]]})
    return found | {
        "answer_stream.txt": "".join(
            f"event: {name}\ndata: {json.dumps(cut(data), ensure_ascii=False)}\n\n"
            for name, data in events(heard)
        ),
        "chat_stream.txt": "".join(f"data: {each}\n\n" for each in map(cut_chunk, data(chunks))),
    }


def replies(client: TestClient) -> dict[str, Any]:
    """The body of each kind of response."""

    def get(path: str, **params: Any) -> Any:
        return client.get(path, params=params).raise_for_status().json()

    def post(path: str, body: Any) -> Any:
        return client.post(path, json=body).raise_for_status().json()

    texts = ["Ten days in a cast at most.", "Stretch the calf daily."]
    search = post("/v1/search", {"query": CAST, "k": 2})
    names = get("/v1/graph_view/names", text="low back pain")
    runs = get("/v1/runs")["runs"]
    return {
        "answer": post("/v1/answers", ASKED),
        "chat": post("/v1/chat/completions", CHAT),
        "models": get("/v1/models"),
        "model": get("/v1/models/srrag"),
        "search": search,
        "rerank": post("/v1/rerank", {"query": "ankle sprain cast", "documents": texts}),
        "library": get("/v1/library"),
        "window": get(f"/v1/windows/{search['hits'][0]['unit_id']}"),
        "feedback": post("/v1/feedback", {"answer_id": EXAMPLE_ID, "verdict": "helpful"}),
        "names": names,
        "graph_walk": get("/v1/graph_walk", entity=names["entities"][0]["id"]),
        "runs": {"runs": runs},
        "run": get(f"/v1/runs/{runs[0]['id']}", against=runs[1]["id"], limit=2),
        "run_answer": get(f"/v1/runs/{runs[0]['id']}/answer", query_id="cast"),
        "healthz": get("/healthz"),
        "readyz": get("/readyz"),
        "reload": post("/admin/reload", {}),
    }


def as_json(body: Any) -> str:
    """A file that people read."""
    return json.dumps(body, ensure_ascii=False, indent=1) + "\n"


def cut(body: Any) -> Any:
    """The same with the evidence that is cited, and one sentence of each node and relation."""
    if isinstance(body, list):
        return [cut(each) for each in body]
    if not isinstance(body, dict):
        return body
    if mentions := body.get("mentions"):
        more = {"more": body["more"] + len(mentions) - 1} if "more" in body else {}
        body = {**body, "mentions": mentions[:1], **more}
    if isinstance(sentences := body.get("sentences"), list) and sentences:
        cited = {number for each in sentences for number in each["citations"]}
        kept = [item for item in body["evidence"] if item["number"] in cited]
        units = {item["unit_id"] for item in kept}
        why = [each for each in body["why"] or () if each["unit_id"] in units] or None
        papers = [each for each in body["papers"] if each["cited"]]
        body = {**body, "evidence": kept, "papers": papers, "why": why}
    elif "evidence" in body:
        body = {**body, "evidence": body["evidence"][:1]}
    return {key: cut(value) for key, value in body.items()}


def data(text: str) -> list[str]:
    """The data lines of a stream."""
    return [line.removeprefix("data: ") for line in text.splitlines() if line]


def cut_chunk(line: str) -> str:
    """A chunk of a chat, cut like a reply."""
    return line if line == "[DONE]" else json.dumps(cut(json.loads(line)), ensure_ascii=False)


def main() -> None:
    """Write all files."""
    from srrag.config.compose import configure

    EXAMPLES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name, "built")
        run_build(configure("build", [f"root={root}", "plan=graph"]))
        for file, text in real(root, Path(name)).items():
            (EXAMPLES / file).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
