"""Words that say nothing about what a text is about."""

STOPWORDS = frozenset(
    """
    a about above after again all also although am among an and any are as at be because been
    before being below between both but by can could did do does doing done due during each
    either etc for from further had has have having he her here him his how however i if in into
    is it its itself just may me might more most much must my neither no nor not of off on once
    one only or other our out over own per s same shall she should since so some such t than that
    the their them then there therefore these they this those through thus to too under until up
    upon us use used uses using very via was we were what when where whereas whether which while
    who whom whose why will with within without would yes you your
    best better evidence following good known list long many often recommend recommended
    """.split()  # noqa: SIM905 (a list of 200 literals hides the words)
)
"""English function words and stock words of clinical questions, listed by the authors."""
