"""The language of a text, by its script or by its commonest words."""

from __future__ import annotations

import re
from collections import Counter

_COMMON_TEXT = {
    "English": "the of and to in is that for with are does was not what on be or by than how do "
    "from it after which",
    "German": "der die das und ist bei von mit den zu ein eine wie für nach im oder dem nicht auf "
    "welche hilft wirkt einer sind",
    "French": "le la les des et est une un dans pour du que avec sur au par ou chez quel après "
    "quelle sont pas",
    "Spanish": "el la los las de y es en un una con para del que por al como se cuál después qué "
    "son más",
    "Italian": "il lo la gli di e è in un una con per del della che dei dopo come quale nei nel "
    "sono più",
    "Portuguese": "o os as de e é em um uma com para do da que dos após como qual no na não são "
    "mais",
    "Dutch": "de het een van en is bij met voor in op te na of wat hoe niet zijn wordt door aan",
}
_COMMON = {name: frozenset(words.split()) for name, words in _COMMON_TEXT.items()}
_SCRIPTS = {
    "Russian": "Ѐ-ӿ", "Greek": "Ͱ-Ͽ", "Arabic": "؀-ۿ",
    "Hebrew": "֐-׿", "Japanese": "぀-ヿ", "Chinese": "一-鿿",
    "Korean": "가-힯", "Hindi": "ऀ-ॿ", "Thai": "฀-๿",
}  # fmt: skip
_IN_SCRIPT = {name: re.compile(f"[{chars}]") for name, chars in _SCRIPTS.items()}
_WORD = re.compile(r"[^\W\d_]+")
LEAST_WORDS = 2
SCRIPT_SHARE = 0.3


def guess_language(text: str) -> str:
    """The English name of a language; "" for too few common words, or for a tie of two languages.

    A script that covers SCRIPT_SHARE of the letters decides; otherwise the language with the most
    common words, if there are at least LEAST_WORDS of them.
    """
    words = _WORD.findall(text.casefold())
    letters = sum(map(len, words))
    for name, pattern in _IN_SCRIPT.items():
        if letters and len(pattern.findall(text)) >= SCRIPT_SHARE * letters:
            return name
    counts = Counter({name: sum(w in common for w in words) for name, common in _COMMON.items()})
    (best, most), (_, second) = counts.most_common(2)
    return best if most >= LEAST_WORDS and most > second else ""
