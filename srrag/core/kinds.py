"""Stable names ("kinds") of the classes that a configuration can name.

A kind is a short name that never changes. YAML files, manifests and everything that is hashed use
kinds. `MODULES` maps each kind to its module today, so moving a file changes one line here and no
fingerprint and no key of a paid answer.

A package of a user adds its classes by entry points of the group `srrag`:

    [project.entry-points.srrag]
    RerankByJournal = "hospital.rerank:RerankByJournal"
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import entry_points
from pathlib import Path
from pkgutil import iter_modules

GROUP = "srrag"
"""The group of entry points."""


def _of_systems() -> dict[str, str]:
    """The kinds of the published systems, as each package names them in its `KINDS`."""
    found: dict[str, str] = {}
    for system in iter_modules([str(Path(__file__).parents[1] / "systems")], "srrag.systems."):
        own: Mapping[str, str] = importlib.import_module(system.name).KINDS
        found |= {kind: f"{system.name}.{module}" for kind, module in own.items()}
    return found


MODULES: dict[str, str] = {
    "AnswerUnaided": "srrag.answer.write.unaided",
    "BuildAbbreviations": "srrag.index.abbreviations",
    "BuildDenseIndex": "srrag.index.dense",
    "BuildGraphIndex": "srrag.index.graph",
    "BuildKnowledgeTree": "srrag.graph.knowledge_tree",
    "BuildLanceDense": "srrag.index.lance",
    "BuildLanceSparse": "srrag.index.lance",
    "BuildSparseIndex": "srrag.index.sparse",
    "BuildStanding": "srrag.index.standing",
    "BuildTokenIndex": "srrag.index.tokens",
    "BuildUnits": "srrag.index.units",
    "CheckAnswer": "srrag.answer.support.check_answer",
    "ChooseOption": "srrag.answer.write.choose",
    "ChunkBySections": "srrag.corpus.chunk",
    "CompleteDocuments": "srrag.retrieve.candidates",
    "ComposeAnswer": "srrag.answer.write.compose",
    "CrossEncoderModel": "srrag.model.cross_encoder",
    "CutWindows": "srrag.corpus.windows",
    "DecomposeQuestion": "srrag.expand.decompose",
    "DetectCommunities": "srrag.graph.communities",
    "EncodeNames": "srrag.graph.name_vectors",
    "EncodeQuestions": "srrag.retrieve.questions",
    "EncodeSubQuestions": "srrag.retrieve.questions",
    "EncodeTexts": "srrag.retrieve.questions",
    "EncodeTitles": "srrag.index.titles",
    "EncodeWindows": "srrag.index.encode",
    "Encoder": "srrag.model.encoder",
    "ExtractDocuments": "srrag.extract.extract_documents",
    "FilterDense": "srrag.lab.benchmark.filter_dense",
    "FindAnchors": "srrag.expand.picot_anchors",
    "FindByRules": "srrag.extract.find_mentions",
    "FindByTagger": "srrag.extract.find_mentions",
    "FindSnippets": "srrag.answer.select.snippets",
    "FuseFeatures": "srrag.rerank.fuse_features",
    "FuseRanks": "srrag.retrieve.candidates",
    "GatherPapers": "srrag.answer.select.papers",
    "GradeDocuments": "srrag.corpus.grade_documents",
    "GradeSupport": "srrag.lab.benchmark.grade_support",
    "GraphLimits": "srrag.index.graph_reader",
    "GraphWalk": "srrag.index.graph_reader",
    "GraphWeights": "srrag.index.graph_reader",
    "GrowSchema": "srrag.extract.schema_growth",
    "HttpEngine": "srrag.engine.openai.engine",
    "IterateRetrieval": "srrag.retrieve.iterate",
    "JudgeAccuracy": "srrag.lab.judges.accuracy",
    "JudgeAnswerable": "srrag.answer.gate.answerable",
    "JudgeByGold": "srrag.lab.judges.gold",
    "JudgeChoice": "srrag.lab.judges.accuracy",
    "JudgeClaims": "srrag.lab.judges.support",
    "JudgePreference": "srrag.lab.judges.accuracy",
    "JudgeStatements": "srrag.lab.judges.support",
    "ListFindings": "srrag.extract.list_extracts",
    "ListTriples": "srrag.extract.list_extracts",
    "LocalRunner": "srrag.runner.runner",
    "MakeNuggets": "srrag.lab.judges.gold",
    "MeasureCitations": "srrag.lab.judges.citations",
    "MeasureClaims": "srrag.lab.judges.nuggets",
    "MeasureCompleteness": "srrag.lab.judges.nuggets",
    "MeasureEvidence": "srrag.lab.judges.citations",
    "MeasureForm": "srrag.lab.judges.nuggets",
    "MeasureGoldCitations": "srrag.lab.judges.citations",
    "MeasureNuggets": "srrag.lab.judges.nuggets",
    "MeasurePicot": "srrag.lab.judges.nuggets",
    "MeasureSimilarity": "srrag.lab.judges.nuggets",
    "MergeEntities": "srrag.graph.entities",
    "Ontology": "srrag.core.ontology",
    "ParseDocuments": "srrag.corpus.parse",
    "Pipeline": "srrag.core.pipeline",
    "PipelineSlice": "srrag.core.pipeline",
    "PlanSearch": "srrag.expand.plan_search",
    "RankLlamaModel": "srrag.model.cross_encoder",
    "RayDataRunner": "srrag.runner.ray.data",
    "ReadAndAnswer": "srrag.answer.write.read_and_answer",
    "ReadBeir": "srrag.corpus.read_jsonl",
    "ReadCnxml": "srrag.corpus.read_cnxml",
    "ReadFolder": "srrag.corpus.read_folder",
    "ReadFollowUp": "srrag.expand.read_follow_up",
    "ReadJsonl": "srrag.corpus.read_jsonl",
    "ReadNotices": "srrag.corpus.notices",
    "ReadPubmed": "srrag.corpus.read_pubmed",
    "RecordedEngine": "srrag.engine.recorded",
    "Reflect": "srrag.retrieve.ircot",
    "RerankBETR": "srrag.rerank.betr",
    "RerankBiEncoder": "srrag.rerank.bi_encoder",
    "RerankCrossEncoder": "srrag.rerank.cross_encoder",
    "RerankMaxSim": "srrag.rerank.maxsim",
    "Rules": "srrag.llm.completion",
    "SampleSeeds": "srrag.lab.benchmark.sample",
    "SearchAgain": "srrag.answer.write.read_and_answer",
    "SearchBranches": "srrag.retrieve.branches",
    "SearchDense": "srrag.retrieve.search",
    "SearchGraph": "srrag.retrieve.search_graph",
    "SearchSparse": "srrag.retrieve.search",
    "SearchTracks": "srrag.retrieve.tracks",
    "SelectEvidence": "srrag.answer.select.evidence",
    "SplitNuggets": "srrag.lab.benchmark.split_nuggets",
    "Track": "srrag.retrieve.tracks",
    "VllmEngine": "srrag.engine.vllm.engine",
    "Vocabulary": "srrag.reading.vocabulary",
    "WeighTokens": "srrag.retrieve.questions",
    "WriteHyde": "srrag.expand.hyde",
    "WriteQuestion": "srrag.lab.benchmark.write_question",
    "WriteReference": "srrag.lab.benchmark.write_reference",
    **_of_systems(),
}
"""The module of each kind."""


@lru_cache(maxsize=1)
def extensions() -> Mapping[str, str]:
    """Return the kinds of installed packages, each with its `module:Class`.

    Raises ValueError for a kind that is taken.
    """
    found: dict[str, str] = {}
    for entry in entry_points(group=GROUP):
        if entry.name in MODULES or found.get(entry.name, entry.value) != entry.value:
            raise ValueError(f"entry point {entry.name} = {entry.value}: the name is taken")
        found[entry.name] = entry.value
    return found


def kind_of(cls: type) -> str:
    """Return the kind of a class; for a foreign class without an entry point, its address."""
    module, name = cls.__module__, cls.__qualname__
    if module.partition(".")[0] == "srrag":
        return name
    for kind, value in extensions().items():
        if value == f"{module}:{name}":
            return kind
    return f"{module}.{name}"


def class_of(name: str) -> type:
    """Return the class of a kind, or of its address in srrag.

    Raises ValueError for any other name, with similar names, and for a class that cannot be
    imported.
    """
    kind = name
    module, _, last = name.rpartition(".")
    if module and MODULES.get(last) == module:
        kind = last
    if kind in MODULES:
        module, attribute = MODULES[kind], kind
    elif kind in extensions():
        module, _, attribute = extensions()[kind].partition(":")
    else:
        like = difflib.get_close_matches(last, [*MODULES, *extensions()], n=3)
        hint = f"; there is {', '.join(like)}" if like else ""
        raise ValueError(f"_target_ {name!r} is no kind of srrag or of an installed package{hint}")
    try:
        cls = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"_target_ {name!r}: {error}") from error
    assert isinstance(cls, type)
    return cls
