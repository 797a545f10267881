"""EbmKG and IdepRAG: a hypergraph of evidence, searched from a question's entities."""

KINDS = {
    "BuildHypergraph": "build_hypergraph",
    "CutKeyedUnits": "document_keywords",
    "EncodeFindings": "findings",
    "ExtractFeatures": "features",
    "ExtractFindings": "findings",
    "FindDocumentKeywords": "document_keywords",
    "FindSearchWords": "search_topics",
    "HyperRelations": "document_keywords",
    "RerankAttention": "rerank_attention",
    "SearchTopics": "search_topics",
    "SelectFindings": "rerank_attention",
}
"""The module of each kind."""
