"""A small vocabulary in MeSH's form."""

from __future__ import annotations

from pathlib import Path

TERMS = {
    "D1": ("Breast Neoplasms", "C04.588"),
    "D2": ("Diabetes Mellitus, Type 2", "C18.452"),
    "D3": ("Kidney Failure, Chronic", "C12.777"),
    "D4": ("Aspirin", "D02.455"),
    "D5": ("Fever", "C23.888.119"),
    "D6": ("Exercise Therapy", "E02.779"),
    "D7": ("Ankle Injuries", "C26.558"),
    "D8": ("Tendinopathy", "C05.651"),
    "D9": ("Low Back Pain", "C23.888.592"),
}
SYNONYMS = (
    ("DOID:1", "type 2 diabetes mellitus", "name"),
    ("DOID:1", "adult-onset diabetes", "exact-synonym"),
    ("DOID:1", "sugar", "related-synonym"),
    ("DOID:2", "nowhere disease", "name"),
)


def vocabulary_folder(folder: Path) -> Path:
    """Write the three tables."""
    lines = [f"{mesh}\t{name}" for mesh, (name, _) in TERMS.items()]
    (folder / "terms.tsv").write_text("\n".join(["mesh_id\tmesh_name", *lines]) + "\n")
    lines = [f"{mesh}\t{number}" for mesh, (_, number) in TERMS.items()]
    (folder / "tree_numbers.tsv").write_text(
        "\n".join(["mesh_id\tmesh_tree_number", *lines]) + "\n"
    )
    lines = ["\t".join(row) for row in SYNONYMS]
    (folder / "disease_synonyms.tsv").write_text("\n".join(["doid\tname\ttype", *lines]) + "\n")
    return folder
