"""EbmKG and IdepRAG: a hypergraph of evidence, searched from a question's entities."""

KINDS = {
    "BuildHypergraph": "build_hypergraph",
    "CutKeyedUnits": "keyed_units",
    "EncodeFindings": "finding_vectors",
    "ExtractFeatures": "features",
    "ExtractFindings": "findings",
    "FindDocumentKeywords": "document_keywords",
    "FindSearchWords": "search_words",
    "HyperRelations": "hyper_relations",
    "RerankAttention": "rerank_attention",
    "SearchTopics": "search_topics",
    "SelectFindings": "select_findings",
}
"""The module of each kind."""
