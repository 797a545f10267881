"""Fonts of PDF files that store Greek letters and signs under the codes of Latin ones.

Read by its codes alone, such a font turns 20 micrograms into 20 mg, n = 30 into n530, and 5 ± 2
into 5 – 2. Symbol has an encoding of its own (PDF 32000-1, annex D.5). What the typesetters' fonts
stand for was read from papers whose XML is public; any other sign of theirs becomes a mark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from pdfminer.layout import LTChar
from pdfminer.pdffont import PDFFont, PDFSimpleFont
from pdfminer.pdfinterp import PDFResourceManager

UNKNOWN = "\ufffd"
"""Stands for a sign of which the font does not tell what it is."""

_CODES = range(0x21, 0x7F)
_LETTERS = "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ"
_SIGNS = "′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…"
_SYMBOL: Mapping[int, str] = {
    0x2A: "*", 0x2D: "\u2212", 0x40: "≅", 0xD7: "⋅", 0xE5: "∑",
    **{0x41 + place: letter for place, letter in enumerate(_LETTERS)},
    **{0xA2 + place: sign for place, sign in enumerate(_SIGNS)},
}  # fmt: skip
_PI: Mapping[int, str] = dict.fromkeys(_CODES, UNKNOWN) | {
    **{ord(code): _SYMBOL[ord(code)] for code in "abdegmlksGD"},
    **dict(zip(map(ord, "123569,.$()[]/"), "+\u2212×=±′<>°()[]/", strict=True)),
}
_ALPHABET: Mapping[int, str] = dict.fromkeys(_CODES, UNKNOWN) | dict(
    zip(map(ord, "abcdefghijklm"), "αβγδεζηθικλμν", strict=False)
)
_FONTS: Sequence[tuple[re.Pattern[str], Mapping[int, str]]] = [
    (re.compile(r"AdvPS?7DA6|AdvPi\d|MathematicalPi-?One"), _PI),
    (re.compile(r"AdvPSMP\d"), _ALPHABET),
]
_SYMBOL_NAME = re.compile(r"(?:.*\+)?Symbol(?:MT)?(?:[,-].*)?")
_UNITS = ("g", "L", "l", "M", "m")
_ALONE = 2
"""The longest run of a font that sets signs, and no words."""


class SymbolFonts(PDFResourceManager):
    """The fonts of a file; those that only look like Latin ones read as what they print."""

    def get_font(self, objid: object, spec: Mapping[str, Any]) -> PDFFont:
        """Return a font of the file."""
        font: PDFFont = super().get_font(objid, spec)
        if not isinstance(font, PDFSimpleFont):
            return font
        name = str(getattr(spec.get("BaseFont"), "name", ""))
        own = next((codes for pattern, codes in _FONTS if pattern.search(name)), None)
        if own is not None:
            font.unicode_map, font.cid2unicode = None, dict(own)
        elif _SYMBOL_NAME.fullmatch(name) and "Encoding" not in spec and not font.unicode_map:
            font.cid2unicode = {**font.cid2unicode, **_SYMBOL}
        return font


def mend_micro(chars: Sequence[LTChar]) -> None:
    """Read the m or l of a font that sets no words, before a unit of another font, as micro."""
    longest: dict[str, int] = {}
    for name, run in groupby(chars, key=lambda char: char.fontname):
        length = sum(not char.get_text().isspace() for char in run)
        longest[name] = max(longest.get(name, 0), length)
    for before, char, after in zip(chars, chars[1:], chars[2:], strict=False):
        alone = longest[char.fontname] <= _ALONE
        unit = char.get_text() in ("m", "l") and after.get_text() in _UNITS
        if alone and unit and char.fontname not in (before.fontname, after.fontname):
            char._text = "μ"
