"""The conditions of the sports-rehabilitation corpus: codes and names (SR-RAG, Table S4)."""

from __future__ import annotations

GUIDELINE_SETS: dict[str, str] = {
    "GL-GEN": "General clinical exercise guideline set",
    "GL-SP": "Special-population guideline subset",
}

SUB_CONDITIONS: dict[str, str] = {
    "ACL": "Anterior cruciate ligament injury",
    "AT": "Achilles tendinopathy",
    "BSI": "Bone stress injury",
    "FS": "Adhesive capsulitis of the shoulder",
    "GPA": "Groin pain in athletes",
    "GTPS": "Greater trochanteric pain syndrome",
    "HSI": "Hamstring strain injury",
    "IS": "Isthmic spondylolisthesis",
    "LAS": "Lateral ankle sprain",
    "LBP": "Low back pain",
    "ITBS": "Iliotibial band syndrome",
    "LET": "Lateral elbow tendinopathy",
    "MACL": "Knee meniscal and articular cartilage lesions",
    "MTSS": "Medial tibial stress syndrome",
    "NAHJP": "Nonarthritic hip joint pain",
    "NP": "Neck pain",
    "PHP": "Plantar heel pain",
    "PFP": "Patellofemoral pain",
    "PT": "Patellar tendinopathy",
    "RCRSP": "Rotator cuff related shoulder pain",
    "FTASD": "First-time anterior shoulder dislocation",
}

CONDITIONS: dict[str, str] = {**SUB_CONDITIONS, **GUIDELINE_SETS}

_BY_NAME = {name.casefold(): code for code, name in CONDITIONS.items()}


def condition_code(given: str) -> str:
    """Return the code for a code or a full name in any case; "" if it is unknown."""
    bare = given.strip()
    return bare.upper() if bare.upper() in CONDITIONS else _BY_NAME.get(bare.casefold(), "")
