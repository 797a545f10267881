"""RASRAG: a textbook as a tree of chapters, big and small text units."""

KINDS = {
    "BuildTextbookTree": "textbook_tree",
    "CutBigUnits": "text_units",
    "CutSmallUnits": "text_units",
    "FindFigures": "figures",
    "FindKeywords": "keywords",
    "RerankTreePrior": "tree_prior",
    "SearchTree": "search_tree",
    "Thresholds": "thresholds",
}
"""The module of each kind."""
