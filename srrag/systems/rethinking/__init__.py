"""Rethinking RAG in medicine: search by a rationale, and a filter of evidence."""

KINDS = {
    "FilterEvidence": "filter_evidence",
    "JudgeEvidence": "filter_evidence",
    "WriteRationale": "rationale",
}
"""The module of each kind."""
