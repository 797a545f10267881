"""English words of whole numbers below a hundred."""

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
SMALL = _SMALL.split()
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
NUMBER_WORDS = {
    **{word: number for number, word in enumerate(SMALL)},
    **{word: 10 * number for number, word in enumerate(TENS, start=2)},
    **{
        f"{tens}-{ones}": 10 * number + unit
        for number, tens in enumerate(TENS, start=2)
        for unit, ones in enumerate(SMALL[1:10], start=1)
    },
}
