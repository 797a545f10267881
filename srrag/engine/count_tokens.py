"""Count tokens as a model's own tokenizer does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from srrag.llm.completion import Prompt

UTF8 = "utf8"
UTF8_BYTES = 4
"""Bytes a token of the count that needs no tokenizer: English text, most vocabularies."""


class TokenCounter:
    """Counts tokens of prompts and texts.

    `name` is a folder or hub id of a tokenizer, or "utf8" for a token every four bytes.
    """

    def __init__(self, name: str) -> None:
        """Bind a tokenizer; it is loaded at first use."""
        self.name = name
        self._systems: dict[str, int] = {}

    def texts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without special ones."""
        if self.name == UTF8:
            return [-(-len(text.encode("utf-8", "replace")) // UTF8_BYTES) for text in texts]
        if not texts:
            return []
        encoded = self._tokenizer(list(texts), add_special_tokens=False)["input_ids"]
        return [len(ids) for ids in encoded]

    def prompts(self, prompts: Sequence[Prompt]) -> list[int]:
        """Tokens of each prompt as a chat: the system text with the chat's own, and the user's."""
        users = self.texts([prompt.user for prompt in prompts])
        return [
            self._system(prompt.system) + user for prompt, user in zip(prompts, users, strict=True)
        ]

    def _system(self, text: str) -> int:
        if text not in self._systems:
            self._systems[text] = self._chat(text)
        return self._systems[text]

    def _chat(self, system: str) -> int:
        """Tokens of a chat whose user says nothing."""
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
