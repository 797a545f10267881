"""BioGen: modular sparse and dense retrieval for evidence-constrained answers (TREC 2025)."""

KINDS = {
    "ComposeParagraph": "paragraph",
    "GatherDocuments": "gather_documents",
    "Reformulate": "reformulate",
    "RescoreDense": "dense_rescoring",
    "SelectBullets": "bullets",
    "SummariseDocuments": "summarise",
}
"""The module of each kind."""
