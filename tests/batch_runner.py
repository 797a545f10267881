"""Answers batch files on this machine, as OpenAI's batch API and `vllm run-batch` write them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.endpoint_script import answer_by_rules

Request = dict[str, Any]


def completed(request: Request, text: str, **changes: Any) -> dict[str, Any]:
    """The completion of a request."""
    body = request["body"]
    sent = sum(len(turn["content"].encode()) for turn in body["messages"]) // 4
    return {
        "id": f"chatcmpl-{request['custom_id']}",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": sent, "completion_tokens": len(text.encode()) // 4},
        **changes,
    }


def of_openai(request: Request, status: int, body: dict[str, Any], serial: str = "") -> Any:
    """A row of an output or error file of OpenAI's batch API."""
    return {
        "id": f"batch_req_{request['custom_id']}{serial}",
        "custom_id": request["custom_id"],
        "response": {"status_code": status, "request_id": "r", "body": body},
        "error": None,
    }


def expired(request: Request, serial: str = "") -> Any:
    """A row of OpenAI's error file for a prompt that was not reached in time."""
    return {
        "id": f"batch_req_{request['custom_id']}{serial}",
        "custom_id": request["custom_id"],
        "response": None,
        "error": {"code": "batch_expired", "message": "This request could not be executed."},
    }


def of_vllm(request: Request, body: dict[str, Any] | None, error: Any = None) -> Any:
    """A row as `vllm run-batch` writes it; a failed one has a status and no body."""
    return {
        "id": f"vllm-{request['custom_id'][:8]}",
        "custom_id": request["custom_id"],
        "response": {
            "status_code": 400 if body is None else 200,
            "request_id": "vllm-batch-1",
            "body": body,
        },
        "error": error,
    }


def requests(folder: Path) -> list[Request]:
    """The prompts of a folder, in order."""
    return [
        json.loads(line)
        for path in sorted(folder.glob("prompts-*.jsonl"))
        for line in path.read_text("utf-8").splitlines()
    ]


def by_rules(request: Request) -> Any:
    """A row of OpenAI's output file, answered as the rules do."""
    return of_openai(request, 200, completed(request, answer_by_rules(request["body"])))


def answer(
    folder: Path, row: Callable[[Request], Any] = by_rules, name: str = "output.jsonl"
) -> int:
    """Answer each prompt that no file has answered, into one more file; returns how many."""
    done = {
        json.loads(line)["custom_id"]
        for path in folder.glob("*.jsonl")
        if not path.name.startswith("prompts-")
        for line in path.read_text("utf-8").splitlines()
    }
    rows = {r["custom_id"]: row(r) for r in requests(folder) if r["custom_id"] not in done}
    written = [json.dumps(each) + "\n" for each in rows.values() if each is not None]
    number = len(list(folder.glob(f"*{name}")))
    (folder / f"{number}-{name}").write_text("".join(written), "utf-8")
    return len(written)
