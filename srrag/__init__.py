"""SR-RAG: distributed, evidence-based retrieval-augmented generation for medicine."""

__version__ = "0.1.0"
