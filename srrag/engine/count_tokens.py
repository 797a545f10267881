"""Counts tokens with a model's own tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from srrag.llm.completion import Prompt

UTF8 = "utf8"
UTF8_BYTES = 4
"""Bytes per token in the estimate without tokenizer: typical for English text."""


class TokenCounter:
    """Counts tokens of prompts and texts.

    `name` is the folder or hub id of a tokenizer, or "utf8" for one token per four bytes.
    """

    def __init__(self, name: str) -> None:
        """Bind a tokenizer; it loads at first use, and raises ValueError then if it cannot."""
        self.name = name
        self._systems: dict[str, int] = {}

    def texts(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text, without special tokens."""
        if self.name == UTF8:
            return [-(-len(text.encode("utf-8", "replace")) // UTF8_BYTES) for text in texts]
        if not texts:
            return []
        encoded = self._tokenizer(list(texts), add_special_tokens=False)["input_ids"]
        return [len(ids) for ids in encoded]

    def prompts(self, prompts: Sequence[Prompt]) -> list[int]:
        """Count the tokens of each prompt as a chat: template, system text and user text."""
        users = self.texts([prompt.user for prompt in prompts])
        return [
            self._system(prompt.system) + user for prompt, user in zip(prompts, users, strict=True)
        ]

    def _system(self, text: str) -> int:
        if text not in self._systems:
            self._systems[text] = self._chat(text)
        return self._systems[text]

    def _chat(self, system: str) -> int:
        """Count the tokens of a chat with an empty user message."""
        if self.name == UTF8 or not self._tokenizer.chat_template:
            return self.texts([system])[0]
        messages = [{"role": "system", "content": system}, {"role": "user", "content": ""}]
        text = self._tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True
        )
        return self.texts([text])[0]

    @cached_property
    def _tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        try:
            return AutoTokenizer.from_pretrained(self.name, trust_remote_code=False)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"engine.tokenizer={self.name}: no tokenizer can be loaded from there; give its "
                f"folder, or 'utf8' to count a token every four bytes"
            ) from error
