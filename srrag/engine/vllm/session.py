"""A session of vLLM: renders calls to token ids, and turns the engine's outputs into replies."""

from __future__ import annotations

import asyncio
import copy
import json
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from srrag.core.errors import EngineError
from srrag.engine.base import LENGTHS, Call, Reply, SessionLostError, allowed, reply_of
from srrag.llm.completion import Answer, Enums, Fault, one_line
from srrag.llm.read_answer import LoopWatch, ended

if TYPE_CHECKING:
    from vllm.outputs import RequestOutput
    from vllm.v1.engine.async_llm import AsyncLLM

MAX_REPEATS = 32
"""Repeats of up to MAX_REPEATED_TOKENS tokens after which an answer is cut off."""

MAX_REPEATED_TOKENS = 16

_MAX_DETAIL_CHARS = 300


class CallError(EngineError):
    """A call failed that concerns no other; `fault` says how."""

    def __init__(self, fault: Fault) -> None:
        """Keep the fault."""
        super().__init__(f"{fault.kind}: {fault.detail}")
        self.fault = fault


class VllmSession:
    """Answers calls with one AsyncLLM, which batches all calls in flight."""

    def __init__(self, llm: AsyncLLM, lora: Any = None) -> None:
        """Bind a running engine and its LoRA adapter."""
        self._llm: AsyncLLM | None = llm
        self._lora = lora
        # Tokenizers are not thread-safe, so the renderer's thread gets a copy.
        self._tokenizer = copy.deepcopy(llm.get_tokenizer())
        self._renderer = ThreadPoolExecutor(1, thread_name_prefix="render")
        self.prefix_tokens = 0
        """Number of prompt tokens found in the KV cache so far."""

    async def complete(self, call: Call) -> Reply:
        """Answer one call; an error that concerns it alone becomes the reply's fault.

        Raises SessionLostError if the engine's processes are gone.
        """
        return await reply_of(self.stream(call))

    async def stream(self, call: Call) -> AsyncGenerator[str | Reply, None]:
        """Yield the pieces of an answer, then the reply; raises SessionLostError as `complete`."""
        began = time.perf_counter()
        try:
            async with aclosing(self._pieces(call, began)) as pieces:
                async for piece in pieces:
                    yield piece
        except CallError as error:
            yield Reply(fault=error.fault, seconds=time.perf_counter() - began)

    async def _pieces(self, call: Call, began: float) -> AsyncGenerator[str | Reply, None]:
        texts: list[str] = []
        tokens_out = 0
        looped = False
        last: RequestOutput | None = None
        watch = LoopWatch()
        async with aclosing(self._outputs(call)) as outputs:
            async for last in outputs:
                piece = last.outputs[0]
                tokens_out += len(piece.token_ids)
                if piece.text:
                    texts.append(piece.text)
                    yield piece.text
                if looped := watch.loops(piece.text):
                    break  # closing the outputs ends the generation
        assert last is not None
        self.prefix_tokens += last.num_cached_tokens or 0
        stopped = last.outputs[0].finish_reason == "stop"
        finish = "looped" if looped else "stop" if stopped else "length"
        text, finish = ended("".join(texts), finish)
        yield Reply(
            text=text,
            finish=finish,
            tokens_in=len(last.prompt_token_ids),
            tokens_out=tokens_out,
            seconds=time.perf_counter() - began,
        )

    async def close(self) -> None:
        """End the engine's processes; calls in flight are lost."""
        llm, self._llm = self._llm, None
        if llm is not None:
            self._renderer.shutdown(wait=False, cancel_futures=True)
            await asyncio.to_thread(llm.shutdown)

    async def _outputs(self, call: Call) -> AsyncGenerator[RequestOutput, None]:
        """Yield the engine's outputs for a call; raises CallError or SessionLostError."""
        from vllm.exceptions import VLLMClientError
        from vllm.inputs.engine import tokens_input
        from vllm.v1.engine.exceptions import EngineDeadError, EngineGenerateError

        if self._llm is None:
            raise SessionLostError("this session of vLLM is closed")
        ids = await self._token_ids(call, self._llm.model_config.max_model_len)
        generated = self._llm.generate(
            tokens_input(ids), sampling(call), call.key.hex(), lora_request=self._lora
        )
        try:
            async with aclosing(generated):
                async for output in generated:
                    if output.outputs[0].finish_reason in ("error", "abort"):
                        raise _fault("server", "the engine gave this call up")
                    yield output
        except VLLMClientError as error:
            raise _fault("refused_call", error) from error
        except EngineGenerateError as error:
            raise _fault("server", error.__cause__ or error) from error
        except EngineDeadError as error:
            raise SessionLostError("vLLM's engine process is gone") from error

    async def _token_ids(self, call: Call, room: int) -> list[int]:
        """Render the prompt to token ids; raises CallError if it leaves no room for the answer."""
        loop = asyncio.get_running_loop()
        try:
            ids = await loop.run_in_executor(self._renderer, self._rendered, call)
        except Exception as error:  # a model's template can raise anything
            raise _fault("refused_call", f"the chat template: {error}") from error
        answer = call.prompt.max_tokens
        if len(ids) + answer > room:
            detail = f"{len(ids)} tokens and {answer} of the answer are more than {room}"
            raise _fault("too_long", detail)
        return ids

    def _rendered(self, call: Call) -> list[int]:
        render: Callable[..., list[int]] = self._tokenizer.apply_chat_template
        return render(call.messages(), add_generation_prompt=True, return_dict=False)


@lru_cache(maxsize=256)
def guide(schema: type[Answer], enums: Enums = ()) -> str:
    """The JSON schema for guided decoding, with fields in the order of their declaration.

    `enums` are those of the prompt.

    It omits bounds on string lengths, which parsing enforces. With them xgrammar 0.2 allows raw
    control characters, which are invalid JSON, but no escapes (quote, line feed); and with a
    vocabulary of 32,000 tokens a decoding step takes 6 ms per sequence instead of 8 µs.
    """
    return json.dumps(allowed(schema, enums, LENGTHS), ensure_ascii=False)


def sampling(call: Call) -> Any:
    """The sampling parameters of a call: guided by its schema, with a seed from its key."""
    from vllm.sampling_params import (
        RepetitionDetectionParams,
        RequestOutputKind,
        SamplingParams,
        StructuredOutputsParams,
    )

    guided = guide(call.prompt.schema, call.prompt.enums)
    return SamplingParams(
        temperature=call.prompt.temperature,
        max_tokens=call.prompt.max_tokens,
        seed=call.seed,
        structured_outputs=StructuredOutputsParams(json=guided),
        repetition_detection=RepetitionDetectionParams(
            max_pattern_size=MAX_REPEATED_TOKENS, min_count=MAX_REPEATS
        ),
        output_kind=RequestOutputKind.DELTA,
    )


def _fault(kind: str, detail: object) -> CallError:
    return CallError(Fault(kind, one_line(detail, _MAX_DETAIL_CHARS)))
