from pathlib import Path

import pytest
import yaml

from srrag.core.ontology import ANY, HAS_ATTRIBUTE, Ontology
from srrag.core.spec import build, spec

SCHEMAS = Path(__file__).parents[3] / "conf" / "schema"

# SR-RAG Table S1.
PICO_ENTITIES = """Population Condition Intervention Comparator Outcome Timepoint Arm Device
Recommendation AdverseEvent Contraindication"""
PICO_RELATIONS = """has_population has_condition uses_intervention compares_to reports_outcome
has_timepoint targets_arm uses_device recommends_for recommends_against has_adverse_event
contraindicated_for"""
# SR-RAG Table S2.
NEUTRAL_ENTITIES = """ClinicalConcept EvidenceStatement Study Guideline Recommendation Protocol
OutcomeMeasure Device AdverseEvent Contraindication Topic"""
NEUTRAL_RELATIONS = """mentions associated_with belongs_to_topic reported_in supported_by
has_protocol uses_device reports_measure recommends_for recommends_against has_adverse_event
contraindicated_for"""
# The same in both tables.
ATTRIBUTES = """age_bin age_range sex baseline_severity time_since_injury_or_surgery
inclusion_criteria exclusion_criteria dose frequency session_duration intensity progression_rule
setting supervision followup_weeks timepoint_value timepoint_unit measure_name outcome_domain
primary_outcome adverse_event contraindication recommendation_strength evidence_certainty
applicability_notes study_design sample_size protocol_params"""


def load(name: str) -> Ontology:
    ontology = build(yaml.safe_load((SCHEMAS / f"{name}.yaml").read_text("utf-8")))
    assert isinstance(ontology, Ontology)
    return ontology


@pytest.mark.parametrize(
    ("name", "entities", "relations"),
    [
        ("pico_paper", PICO_ENTITIES, PICO_RELATIONS),
        ("neutral", NEUTRAL_ENTITIES, NEUTRAL_RELATIONS),
    ],
)
def test_schema_files_are_the_tables(name: str, entities: str, relations: str) -> None:
    ontology = load(name)
    assert ontology.entities == entities.split()
    assert list(ontology.relations) == relations.split()
    assert list(ontology.attributes) == ATTRIBUTES.split()
    assert (len(ontology.entities), len(ontology.relations)) == (11, 12)
    assert len(ontology.attributes) == 28


@pytest.mark.parametrize("name", ["pico", "neutral"])
def test_a_schema_is_its_own_identity(name: str) -> None:
    ontology = load(name)
    assert build(spec(ontology)) == ontology


@pytest.mark.parametrize("name", ["pico", "neutral"])
def test_every_entity_type_can_be_reached(name: str) -> None:
    ontology = load(name)
    reached = {kind for ends in ontology.relations.values() for kind in ends["tail"]}
    assert set(ontology.entities) <= reached


def small(**changed: object) -> Ontology:
    fields: dict[str, object] = {
        "entities": ["Drug", "Disease"],
        "relations": {"treats": {"head": ["Document", "Drug"], "tail": ["Disease"]}},
        "attributes": {"dose": ["Drug"], "note": [ANY]},
    }
    return Ontology(**{**fields, **changed})  # type: ignore[arg-type]


def test_admits_only_the_declared_ends() -> None:
    ontology = small()
    assert ontology.admits("Drug", "treats", "Disease")
    assert ontology.admits("Document", "treats", "Disease")
    assert not ontology.admits("Disease", "treats", "Drug")
    assert not ontology.admits("Drug", "causes", "Disease")


def test_attributes_hang_on_their_owners_and_any_means_known_types() -> None:
    ontology = small()
    assert ontology.admits_attribute("Drug", "dose")
    assert not ontology.admits_attribute("Disease", "dose")
    assert ontology.admits_attribute("Disease", "note")
    assert ontology.admits_attribute("Document", "note")
    assert not ontology.admits_attribute("Gene", "note")
    assert not ontology.admits_attribute("Drug", "colour")


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"entities": ["Drug", "Drug"]}, "differ"),
        ({"entities": ["Drug", "Disease", "Document"]}, "Document"),
        ({"relations": {"treats": {"head": ["Drug"], "tail": ["Gene"]}}}, "Gene"),
        ({"relations": {"treats": {"head": ["Drug"]}}}, "treats"),
        ({"relations": {HAS_ATTRIBUTE: {"head": [], "tail": []}}}, HAS_ATTRIBUTE),
        ({"attributes": {"dose": ["Gene"]}}, "Gene"),
    ],
)
def test_a_schema_that_contradicts_itself_is_refused(changed: dict[str, object], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        small(**changed)


def test_the_description_names_everything_once_and_ignores_order() -> None:
    one = small().describe()
    other = small(attributes={"note": [ANY], "dose": ["Drug"]}).describe()
    assert one == other
    for name in ("treats", "dose", "note", "Drug | ", "Disease"):
        assert name in one + "Drug | "
