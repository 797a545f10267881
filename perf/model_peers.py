"""`python perf/model_peers.py SYSTEM DOCUMENTS QUESTIONS OUT`: PaperQA2's and LightRAG's answers.

Both read the same papers (JSON lines with id, title and sections), embed with the packaged MiniLM
and call one OpenAI-compatible model, with their defaults but for what has to be: PaperQA2 gathers
evidence and answers without its agent (which needs an endpoint with tool calls) and takes the title
for the citation; LightRAG counts a token every four characters, as its tokenizer is a download.

    pip install paper-qa lightrag-hku            # in an environment of their own
    python -m perf.model_peers vectors --port 8970            # in this project's environment
    python perf/model_peers.py paperqa D.jsonl Q.jsonl OUT --llm URL/v1 --port 8970

OUT/answers.jsonl gets a line a question, with PaperQA2's own count of tokens; OUT/index.json and
OUT/asked.json count LightRAG's calls and tokens (characters over four) for papers and questions.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

LIFETIME_S = 10_800
MODEL = "big"


def rows(file: str) -> list[dict[str, Any]]:
    """Objects of a file of JSON lines."""
    return [json.loads(line) for line in Path(file).read_text("utf-8").splitlines() if line]


def whole_text(document: dict[str, Any]) -> str:
    """Title and sections with their headings."""
    parts = [f"{each['heading']}\n{each['text']}" for each in document["sections"]]
    return "\n\n".join([document["title"], *parts])


class Vectors(BaseHTTPRequestHandler):
    """OpenAI's route for embeddings over the packaged encoder."""

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        """Embed the texts of `input`."""
        from srrag.model.embed import load
        from srrag.model.encoder import Encoder

        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        vectors = load(Encoder(), threads=1).encode(texts)
        data = [{"object": "embedding", "index": n, "embedding": v.tolist()}
                for n, v in enumerate(vectors)]  # fmt: skip
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        reply = {"object": "list", "data": data, "model": "minilm", "usage": usage}
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(reply).encode())


def serve_vectors(port: int) -> None:
    """Serve on loopback until the lifetime is over."""
    server = ThreadingHTTPServer(("127.0.0.1", port), Vectors)
    threading.Timer(LIFETIME_S, server.shutdown).start()
    server.serve_forever()


class Calls:
    """Completions of one endpoint, counted."""

    def __init__(self, url: str) -> None:
        import openai

        self.client = openai.AsyncOpenAI(base_url=url, api_key="none", timeout=LIFETIME_S)
        self.calls = self.tokens_in = self.tokens_out = 0

    async def complete(self, messages: Sequence[dict[str, str]]) -> str:
        """Return the endpoint's answer."""
        reply = await self.client.chat.completions.create(model=MODEL, messages=list(messages))
        text = reply.choices[0].message.content or ""
        self.calls += 1
        self.tokens_in += sum(len(each["content"]) for each in messages) // 4
        self.tokens_out += len(text) // 4
        return text

    def counted(self) -> dict[str, int]:
        """Return what was used so far."""
        return {"calls": self.calls, "in": self.tokens_in, "out": self.tokens_out}


class FourCharacters:
    """A tokenizer of pieces of four characters, which loses nothing."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.ids: dict[str, int] = {}

    def encode(self, content: str) -> list[int]:
        """Return an id for each four characters."""
        found = []
        for start in range(0, len(content), 4):
            piece = content[start : start + 4]
            if piece not in self.ids:
                self.ids[piece] = len(self.pieces)
                self.pieces.append(piece)
            found.append(self.ids[piece])
        return found

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of ids."""
        return "".join(self.pieces[each] for each in tokens)


async def lightrag(arguments: argparse.Namespace, out: Path) -> None:
    """Index the papers, then ask all questions in the default mode."""
    import numpy
    import openai
    from lightrag import LightRAG, QueryParam
    from lightrag.utils import EmbeddingFunc, Tokenizer

    embedder = openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{arguments.port}/v1", api_key="none")

    async def embed(texts: list[str], **_: Any) -> Any:
        reply = await embedder.embeddings.create(
            model="minilm", input=texts, encoding_format="float"
        )
        return numpy.array([each.embedding for each in reply.data])

    def answering(calls: Calls) -> Any:
        async def complete(
            prompt: str,
            system_prompt: str | None = None,
            history_messages: Sequence[dict[str, str]] = (),
            **_: Any,
        ) -> str:
            first = [{"role": "system", "content": system_prompt}] if system_prompt else []
            last = {"role": "user", "content": prompt}
            return await calls.complete([*first, *history_messages, last])

        return complete

    def opened(calls: Calls) -> Any:
        return LightRAG(
            working_dir=str(out / "index"),
            llm_model_func=answering(calls),
            default_llm_timeout=LIFETIME_S,
            llm_model_max_async=64,
            max_parallel_insert=40,
            embedding_func=EmbeddingFunc(embedding_dim=384, func=embed),
            tokenizer=Tokenizer("four characters", FourCharacters()),
        )

    calls = Calls(arguments.llm)
    rag = opened(calls)
    await rag.initialize_storages()
    papers = rows(arguments.documents)
    await rag.ainsert([whole_text(each) for each in papers], ids=[each["id"] for each in papers],
                      file_paths=[each["title"] for each in papers])  # fmt: skip
    if calls.calls:
        (out / "index.json").write_text(json.dumps({"documents": len(papers), **calls.counted()}))

    indexed = calls.counted()

    async def ask(question: dict[str, Any]) -> dict[str, Any]:
        parameters = QueryParam(mode="mix", enable_rerank=False)
        return {**question, "answer": await rag.aquery(question["text"], parameters)}

    questions = rows(arguments.questions)
    write(out, await asyncio.gather(*[ask(each) for each in questions]))
    used = {name: number - indexed[name] for name, number in calls.counted().items()}
    (out / "asked.json").write_text(json.dumps({"questions": len(questions), **used}))
    await rag.finalize_storages()


async def paperqa(arguments: argparse.Namespace, out: Path) -> None:
    """Add the papers, then gather evidence and answer for all questions."""
    os.environ["OPENAI_API_KEY"] = "none"
    from paperqa import Docs, Settings

    reached = {"model": f"openai/{MODEL}", "api_base": arguments.llm, "api_key": "none"}
    model = {"model_name": MODEL, "litellm_params": {**reached, "timeout": LIFETIME_S}}
    llm = {"model_list": [model], "router_kwargs": {"num_retries": 0, "timeout": LIFETIME_S}}
    vectors = {"kwargs": {"api_base": f"http://127.0.0.1:{arguments.port}/v1", "api_key": "none",
                          "encoding_format": "float"}}  # fmt: skip
    settings = Settings(
        llm=MODEL, llm_config=llm, summary_llm=MODEL, summary_llm_config=llm,
        embedding="openai/minilm", embedding_config=vectors,
        parsing={"use_doc_details": False, "multimodal": 0},
        answer={"max_concurrent_requests": 64},
    )  # fmt: skip
    docs = Docs()
    for each in rows(arguments.documents):
        file = out / f"{each['id']}.txt"
        file.write_text(whole_text(each), "utf-8")
        citation = f"{each['title']}. {each['journal']}, {each['year']}."
        await docs.aadd(file, citation=citation, docname=each["id"], settings=settings)

    async def ask(question: dict[str, Any]) -> dict[str, Any]:
        session = await docs.aquery(question["text"], settings=settings)
        used = session.token_counts.values()
        tokens = {"in": sum(each[0] for each in used), "out": sum(each[1] for each in used)}
        contexts = len(session.contexts)
        answer = session.formatted_answer
        return {**question, "answer": answer, "contexts": contexts, **tokens}

    write(out, await asyncio.gather(*[ask(each) for each in rows(arguments.questions)]))


def write(out: Path, answers: Sequence[dict[str, Any]]) -> None:
    """Write a line a question."""
    lines = [json.dumps(each, ensure_ascii=False) + "\n" for each in answers]
    (out / "answers.jsonl").write_text("".join(lines), "utf-8")


def main() -> None:
    """Serve vectors, or ask a peer."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("system", choices=("vectors", "paperqa", "lightrag"))
    parser.add_argument("documents", nargs="?")
    parser.add_argument("questions", nargs="?")
    parser.add_argument("out", nargs="?")
    parser.add_argument("--llm", default="http://127.0.0.1:8000/v1")
    parser.add_argument("--port", type=int, default=8970)
    arguments = parser.parse_args()
    if arguments.system == "vectors":
        serve_vectors(arguments.port)
        return
    out = Path(arguments.out)
    out.mkdir(parents=True, exist_ok=True)
    asyncio.run({"paperqa": paperqa, "lightrag": lightrag}[arguments.system](arguments, out))


if __name__ == "__main__":
    main()
