"""`srrag mcp` as an assistant meets it: the official client, a process, its stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import srrag
from tests.conftest import REPOSITORY
from tests.unit.library.test_build import CHEAP, folder

if find_spec("mcp") is None:
    pytest.skip("without the extra mcp", allow_module_level=True)

CAST = "How long may an acute lateral ankle sprain be immobilised in a cast?"


async def talk(root: Path) -> dict[str, Any]:
    """List the tools and call each once, well and wrongly."""
    import mcp

    server = mcp.StdioServerParameters(
        command=sys.executable,
        args=["-m", "srrag", "mcp", f"root={root}", "pipeline=bm25"],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        cwd=str(REPOSITORY),
    )
    async with mcp.Client(server, read_timeout_seconds=90) as client:
        return {
            "tools": [tool.name for tool in (await client.list_tools()).tools],
            "found": await client.call_tool("search_evidence", {"question": CAST, "k": 3}),
            "answer": await client.call_tool("answer_question", {"question": CAST}),
            "status": await client.call_tool("status", {}),
            "wrong": await client.call_tool("search_evidence", {"question": CAST, "k": 0}),
        }


def content(result: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(result.content[0].text)
    return made


def test_an_assistant_searches_and_cites_from_a_root(sample_root: Path) -> None:
    told = asyncio.run(talk(sample_root))
    assert told["tools"] == ["search_evidence", "answer_question", "status"]
    with srrag.open(sample_root) as root:
        expected = root.search(CAST, k=3, pipeline="bm25").to_arrow().to_pylist()
        answer = root.ask(CAST, pipeline="bm25").json
    assert content(told["found"])["passages"] == expected
    for part in ("sentences", "papers"):  # with what a retraction says of them
        assert content(told["answer"])[part] == json.loads(json.dumps(answer[part]))
    assert content(told["status"])["documents"] > 20
    assert told["wrong"].is_error and "k=0" in told["wrong"].content[0].text


def test_a_retraction_that_a_build_brings_is_told_by_a_server_that_runs(tmp_path: Path) -> None:
    from srrag.library.mcp_server import mcp_server

    text = "Drug X\n\nDrug X reduced knee pain by 2.1 points in 40 adults."
    papers = folder(tmp_path / "papers", drug=f"# {text}")
    root = srrag.build(tmp_path / "R", path=papers, overrides=CHEAP)
    server = mcp_server(root, "bm25")

    def said() -> tuple[str, str]:
        asked = server.call_tool("search_evidence", {"question": "Does drug X reduce knee pain?"})
        (passage,) = content(asyncio.run(asked))["passages"]
        return passage["status"], content(asyncio.run(server.call_tool("status", {})))["version"]

    before = said()
    assert before == ("", root.ask("Does drug X help?", pipeline="bm25").json["version"])
    folder(papers, drug=f"# RETRACTED: {text}")
    srrag.build(tmp_path / "R", path=papers, overrides=CHEAP).close()
    status, version = said()
    assert status == "retracted" and version != before[1]


HALVES = {
    2: "knee \\ud800 pain",
    3: "knee \\udc00\\ud83d pain",
    4: "knee \\\\ud800 \\ud83e\\uddb5 pain",
}


def test_a_question_with_half_a_character_is_answered_by_what_is_wrong(sample_root: Path) -> None:
    command = [sys.executable, "-m", "srrag", "mcp", f"root={sample_root}", "pipeline=bm25"]
    hello = {
        "protocolVersion": "2025-03-26", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }  # fmt: skip
    lines = [json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})]
    lines += [json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})]
    lines += [
        f'{{"jsonrpc": "2.0", "id": {number}, "method": "tools/call", "params": {{"name": '
        f'"search_evidence", "arguments": {{"question": "{text}", "k": 1}}}}}}'
        for number, text in HALVES.items()
    ]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=REPOSITORY, env=environment
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write("\n".join([*lines, ""]).encode())
        server.stdin.flush()
        replies = {
            told["id"]: told for told in (json.loads(server.stdout.readline()) for _ in "1234")
        }
        server.stdin.close()
    for number in (2, 3):
        (said,) = replies[number]["result"]["content"]
        assert replies[number]["result"]["isError"]
        assert "question: the question holds half of a character" in said["text"]
    assert json.loads(replies[4]["result"]["content"][0]["text"])["question"].startswith(
        "knee \\ud800"
    )
