"""Rethinking RAG in medicine: search by a rationale, and a filter of evidence."""

KINDS = {
    "FilterEvidence": "filter_evidence",
    "JudgeEvidence": "judge_evidence",
    "WriteRationale": "rationale",
}
"""The module of each kind."""
