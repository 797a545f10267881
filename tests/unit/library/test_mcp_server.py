"""`srrag mcp` as an assistant meets it: the official client, a process, its stdin and stdout."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import srrag
from tests.conftest import REPOSITORY

mcp = pytest.importorskip("mcp", reason="without the extra mcp")
CAST = "How long may an acute lateral ankle sprain be immobilised in a cast?"


async def talk(root: Path, question: str = CAST, *overrides: str) -> dict[str, Any]:
    """List the tools and call each once, well and wrongly."""
    server = mcp.StdioServerParameters(
        command=sys.executable,
        args=["-m", "srrag", "mcp", f"root={root}", "pipeline=bm25", *overrides],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        cwd=str(REPOSITORY),
    )
    async with mcp.Client(server, read_timeout_seconds=90) as client:
        return {
            "tools": [tool.name for tool in (await client.list_tools()).tools],
            "found": await client.call_tool("search_evidence", {"question": question, "k": 3}),
            "answer": await client.call_tool("answer_question", {"question": question}),
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
    assert content(told["answer"])["sentences"] == json.loads(json.dumps(answer["sentences"]))
    assert content(told["status"])["documents"] > 20
    assert told["wrong"].is_error and "k=0" in told["wrong"].content[0].text
