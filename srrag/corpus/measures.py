"""One form for numerals and units (SR-RAG, section 4.1), without ever changing a digit."""

from __future__ import annotations

import re

_UNITS = (
    "mmol|\u03bcmol|nmol|pmol|mol|mmHg|mOsm|kcal|kJ|kPa|kHz|MHz|Hz|"
    "mg|\u03bcg|mcg|kg|ng|pg|g|ml|mL|\u03bcl|\u03bcL|dl|dL|nL|cl|cL|"
    "nM|\u03bcM|mM|mm|cm|km|\u03bcm|nm|min|msec|sec|ms|h|hrs?|wk|bpm|rpm|IU|mV|kV|Gy|cGy|kDa"
)
_DIGIT = re.compile(r"\d")
_MICRO = re.compile(r"(?<=\d)( ?)\u00b5(?=(?:g|mol|l|L|M|m)\b)")
# The number must not end a name (IL-5, B12), a path or a longer number.
_MEASURE = re.compile(
    rf"(?<![\w.,/])(?<![A-Za-z]-)(\d++(?:[.,]\d++)*+) ?({_UNITS})(?![\w^\u00b2\u00b3])(?!-\w)"
)
_PERCENT = re.compile(r"(?<=\d) %")
_DEGREES = re.compile(r"(?<=\d) ?[\u00b0\u00ba] ?C\b")
_RANGE_DASH = re.compile(r"(?<=[\d%])( ?)[\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d](?= ?\d)")
_TIGHT_EM_DASH = re.compile(r"(?<=\d)\u2014(?=\d)")
_MINUS_SIGN = re.compile(r"(?<![\w)\]%])\u2212(?=[\d.])")
# "0x10" is a hexadecimal number, hence no tight x after a lone 0.
_TIMES = re.compile(r"(?<=\d) ?\u00d7 ?(?=\d)|(?<=\d) x (?=\d)|(?<=[1-9])x(?=\d)|(?<=\d0)x(?=\d)")
_PLUS_MINUS = re.compile(r"(?<=[\d%]) ?(?:\u00b1|\+/-|\+/\u2212) ?(?=\d)")
# "3\u00b75" is a decimal as some journals print it; "5\u00b710^3" is a product and stays.
_MIDDLE_DOT = re.compile(r"(?<![\d.,\u00b7])(\d{1,4})\u00b7(?!10(?!\d))(\d{1,4})(?![\d\u00b7^])")


def format_measures(text: str) -> str:
    """Give numbers and units one form: "5mg" is "5 mg", "53 %" is "53%", "5\u201310" is "5-10".

    Dash and minus variants between numbers become "-", times and plus-minus signs get blanks
    on both sides. The sequence of digits is untouched. Idempotent; runs of blanks must have
    been collapsed before.
    """
    if not _DIGIT.search(text):
        return text
    text = _MICRO.sub("\\1\u03bc", text)
    text = _MIDDLE_DOT.sub(r"\1.\2", text)
    text = _RANGE_DASH.sub(r"\1-", text)
    text = _TIGHT_EM_DASH.sub("-", text)
    text = _MINUS_SIGN.sub("-", text)
    text = _TIMES.sub(" \u00d7 ", text)
    text = _PLUS_MINUS.sub(" \u00b1 ", text)
    text = _DEGREES.sub(" \u00b0C", text)
    text = _PERCENT.sub("%", text)
    return _MEASURE.sub(r"\1 \2", text)
