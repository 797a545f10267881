"""The relations of the data model; every step maps one of these tables to another.

Lists are empty, never null. The only nullable column is `reject`: if it is set, the named stage
rejected the row, and later steps skip it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

_STRING = pa.string()
_INT = pa.int32()
_LONG = pa.int64()
_FLOAT = pa.float32()


_Field: TypeAlias = tuple[str, pa.DataType] | pa.Field


def _struct(*fields: _Field) -> pa.StructType:
    return pa.struct(fields)


def _rows(*fields: _Field) -> pa.ListType:
    return pa.list_(pa.struct(fields))


def non_null(*fields: _Field) -> pa.Schema:
    """Make a schema of non-null columns; a field of pyarrow stands as it is."""
    made = (pa.field(*each, nullable=False) if isinstance(each, tuple) else each for each in fields)
    return pa.schema(list(made))


REJECT = _struct(("stage", _STRING), ("reason", _STRING), ("detail", _STRING))


def relation(*fields: tuple[str, pa.DataType]) -> pa.Schema:
    """Make a schema of non-null columns plus the nullable `reject` struct."""
    return non_null(*fields).append(pa.field("reject", REJECT))


RAW = relation(
    ("raw_id", _STRING),
    ("source", _STRING),
    ("source_id", _STRING),
    ("format", _STRING),
    ("body", pa.large_binary()),
)

DOCUMENTS = relation(
    ("doc_id", _STRING),
    ("source", _STRING),
    ("source_id", _STRING),
    ("title", _STRING),
    ("text", _STRING),
    ("grade", _STRING),
    ("grade_source", _STRING),
    ("grade_evidence", _STRING),
    ("year", _INT),
    ("pmid", _STRING),
    ("condition", _STRING),
    ("metadata", _STRING),
)

# What records say of papers: `about` is an id ("pmid:1", "doi:10.1/x", "pmcid:PMC1"), or "" for the
# record itself, `link` the paper that says it, "" where none is named.
NOTICES = relation(
    ("doc_id", _STRING),
    ("source_id", _STRING),
    ("about", _STRING),
    ("standing", _STRING),
    ("link", _STRING),
    ("said_by", _STRING),
)

UNITS = relation(
    ("unit_id", _STRING),
    ("doc_id", _STRING),
    ("view", _STRING),
    ("parent_id", _STRING),
    ("order", _INT),
    ("section", _STRING),
    ("char_start", _INT),
    ("char_end", _INT),
    ("text", _STRING),
    ("num_tokens", _INT),
    ("grade", _STRING),
    ("repairs", _INT),
)

TRIPLES = relation(
    ("fact_id", _STRING),
    ("doc_id", _STRING),
    ("unit_id", _STRING),
    ("kind", _STRING),
    ("head", _STRING),
    ("head_type", _STRING),
    ("relation", _STRING),
    ("tail", _STRING),
    ("tail_type", _STRING),
    ("char_start", _INT),
    ("char_end", _INT),
    ("quote", _STRING),
    ("confidence", _FLOAT),
    ("grade", _STRING),
)

# What is told in a stretch of a document: facts as in TRIPLES and findings as in FINDINGS, without
# ids and places in the corpus; `reason` is "" for what stands.
FACT = _struct(
    *(
        pa.field(name, _STRING)
        for name in ("kind", "head", "head_type", "relation", "tail", "tail_type")
    ),
    ("char_start", _INT),
    ("char_end", _INT),
    ("quote", _STRING),
    ("confidence", _FLOAT),
    ("reason", _STRING),
)
_STRINGS = pa.list_(_STRING)
STATED = _struct(
    ("kind", _STRING),
    ("interventions", _STRINGS),
    ("comparators", _STRINGS),
    ("outcome", _STRING),
    ("times", _STRINGS),
    ("people", _STRINGS),
    ("direction", _STRING),
    ("effect", _STRING),
    ("interval", _STRING),
    ("p", _STRING),
    ("places", pa.list_(pa.struct([("start", _INT), ("end", _INT)]))),
    ("quote", _STRING),
    ("confidence", _FLOAT),
    ("reason", _STRING),
)
EXTRACTS = relation(
    ("unit_id", _STRING),
    ("doc_id", _STRING),
    ("char_start", _INT),
    ("char_end", _INT),
    ("text", _STRING),
    ("grade", _STRING),
    ("facts", pa.list_(FACT)),
    ("findings", pa.list_(STATED)),
)

# What a document reports on one outcome: `kind` is found, concluded, planned or background,
# `direction` better, worse, more, less (each also "tends …": a trend, or an untested difference),
# "no difference", "not inferior", differs or unclear, of the outcome under the interventions
# together against the comparators together, or since before; "" for a plan and for figures of one
# group. Effect, interval and p stand as printed, "" where none is told; `people` names those that
# it holds for, if not all. A comparison of effects between people has them as interventions and
# comparators, and EFFECT_OF … as outcome. `places` are the sentences that state it, as characters
# of the document's text, and `quote` their words.
EFFECT_OF = "effect of "
TENDS = "tends "
"""Before a direction of FINDINGS: a trend, or a difference that no test confirms."""
FINDINGS = relation(
    ("finding_id", _STRING),
    ("doc_id", _STRING),
    ("unit_id", _STRING),
    ("grade", _STRING),
    *((field.name, field.type) for field in STATED if field.name != "reason"),
)

# The keywords of a document (EbmKG, section 3.2), shared by its units.
KEYWORD = pa.struct([pa.field(name, _STRING) for name in ("name", "type", "mesh")])
KEYED_DOCUMENTS = relation(
    ("doc_id", _STRING),
    ("title", _STRING),
    ("text", _STRING),
    ("grade", _STRING),
    ("keywords", pa.list_(KEYWORD)),
)

# The text units u = <c_u, K_u> of EbmKG. The span counts characters of the document's text.
KEYED_UNITS = relation(
    ("unit_id", _STRING),
    ("doc_id", _STRING),
    ("title", _STRING),
    ("char_start", _INT),
    ("char_end", _INT),
    ("text", _STRING),
    ("grade", _STRING),
    ("keywords", pa.list_(KEYWORD)),
)

# Pieces of evidence (EbmKG, Eq. 1) of a unit on a keyword, `label` the hyper-relation, with the
# entities that they name (Eq. 2), `mesh` "" for what MeSH does not have. The span counts characters
# of the document's text, −1 and −1 for a text that is not verbatim.
INCIDENCE = relation(
    ("evidence_id", _STRING),
    ("doc_id", _STRING),
    ("unit_id", _STRING),
    ("keyword", _STRING),
    ("keyword_type", _STRING),
    ("label", _STRING),
    ("text", _STRING),
    ("char_start", _INT),
    ("char_end", _INT),
    ("grade", _STRING),
    ("entities", pa.list_(KEYWORD)),
)

FINDING_VECTORS = relation(("evidence_id", _STRING), ("vector", pa.binary()))

# The topics that a question's walk leads to, best first.
TOPICS = _rows(
    ("topic", _INT),
    ("text", _STRING),
    ("visits", _FLOAT),
    ("score", _FLOAT),
)

# What the topics say on a question, each with its usefulness from 0 to 10 (EbmKG, Eq. 10);
# `evidence` is the row of the finding that a feature repeats, −1 for none.
FEATURES = _rows(
    ("text", _STRING),
    ("score", _FLOAT),
    ("evidence", _INT),
)

# Findings in order of their attention scores (EbmKG, Eq. 9).
RANKED_FINDINGS = pa.list_(pa.struct([pa.field("evidence", _INT), pa.field("score", _FLOAT)]))

# One forward pass fills both: the sentence vector (float32) and the token vectors for MaxSim
# (int8, row-major num_tokens × dim, one float16 scale a token).
VECTORS = relation(
    ("unit_id", _STRING),
    ("text_key", pa.uint64()),
    ("vector", pa.binary()),
    ("tokens", pa.large_binary()),
    ("token_scales", pa.binary()),
    ("cut", pa.bool_()),
)

# The titles of documents that have one, each with its sentence vector (float32).
TITLES = relation(
    ("doc_id", _STRING),
    ("vector", pa.binary()),
)

REJECTS = non_null(
    ("stage", pa.string()),
    ("row_id", pa.string()),
    ("source", pa.string()),
    ("reason", pa.string()),
    ("detail", pa.string()),
)

MENTION = _struct(
    ("unit_id", _STRING),
    ("doc_id", _STRING),
    ("char_start", _INT),
    ("char_end", _INT),
)
# A mention keeps the values that its row's are chosen from, so that a row can lose a mention.
ENTITY_MENTION = pa.struct([pa.field("name", _STRING), *MENTION])
EDGE_MENTION = pa.struct([pa.field("confidence", _FLOAT), *MENTION])

ENTITIES = non_null(
    ("entity_id", _STRING),
    ("name", _STRING),
    ("type", _STRING),
    ("mentions", pa.list_(ENTITY_MENTION)),
)

EDGES = non_null(
    ("edge_id", _STRING),
    ("kind", _STRING),
    ("head_id", _STRING),
    ("relation", _STRING),
    ("tail_id", _STRING),
    ("confidence", _FLOAT),
    ("mentions", pa.list_(EDGE_MENTION)),
)

COMMUNITIES = non_null(
    ("entity_id", _STRING),
    ("community_id", _STRING),
)

# The knowledge tree (§4.3 of sr-rag): level 4 communities, 3 keywords, 2 entities and relations,
# 1 attributes. `ref_id` is the community, entity or edge of the node, `rank` its place
# among its siblings from 0, `model` who wrote `text` ("" for nobody).
PICOT = pa.struct([pa.field(name, _STRING) for name in "PICOT"])

QUESTIONS = relation(
    ("query_id", _STRING),
    ("text", _STRING),
    ("topic", _STRING),
    ("narrative", _STRING),
    ("task_kind", _STRING),
    ("options", pa.list_(_STRING)),
    ("gold_option", _STRING),
    ("picot", PICOT),
)

HIT = _struct(
    ("unit_id", _STRING),
    ("score", _FLOAT),
    ("rank", _INT),
)
HITS = pa.list_(HIT)

# Parallel to the hits of the graph: the node, edge and community behind each hit, "" for none.
PATHS = _rows(
    ("entity_id", _STRING),
    ("edge_id", _STRING),
    ("community_id", _STRING),
)

EVIDENCE_KINDS = ("window", "document", "bullet", "summary", "finding")

# `kind` is one of EVIDENCE_KINDS. The span counts characters of the document's text, −1 and −1 for
# a text that is not verbatim.
EVIDENCE = _rows(
    ("evidence_id", _STRING),
    ("kind", _STRING),
    ("unit_id", _STRING),
    ("doc_id", _STRING),
    ("source_id", _STRING),
    ("pmid", _STRING),
    ("grade", _STRING),
    ("title", _STRING),
    ("section", _STRING),
    ("year", _INT),
    ("char_start", _INT),
    ("char_end", _INT),
    ("text", _STRING),
    ("score", _FLOAT),
    ("standing", _STRING),
    ("standing_link", _STRING),
)

# Papers that were found but must not be cited, with their standing.
LEFT_OUT = _rows(
    ("doc_id", _STRING),
    ("source_id", _STRING),
    ("pmid", _STRING),
    ("title", _STRING),
    ("standing", _STRING),
    ("standing_link", _STRING),
)

# What an answer makes of a question's `options`: the index of one, NO_CHOICE for none.
CHOICE = pa.field("choice", _INT, nullable=False)
NO_CHOICE = -1

# Whether there is to be an answer, telling words of the question that no evidence holds, those that
# the nearest paper holds, its title, the evidence (by id) that is on the question, the telling
# words that each piece of evidence and the rest of its paper lack, and the share of the question's
# weight that each word carries.
ANSWERABLE = _struct(
    ("answers", pa.bool_()),
    ("lacking", pa.list_(_STRING)),
    ("near", pa.list_(_STRING)),
    ("nearest", _STRING),
    ("on_topic", pa.list_(_STRING)),
    (
        "lacks",
        _rows(
            ("evidence_id", _STRING),
            ("words", pa.list_(_STRING)),
        ),
    ),
    (
        "shares",
        _rows(
            ("word", _STRING),
            ("share", pa.float64()),
        ),
    ),
)

# The words of a question that name its parts; an empty list is a part that it does not name.
ANCHORS = pa.struct([pa.field(name, pa.list_(_STRING)) for name in "PICOT"])

# The queries to the graph: `kind` is node, triple or community, `types` names of its schema.
SUBQUESTIONS = _rows(
    ("kind", _STRING),
    ("text", _STRING),
    ("types", pa.list_(_STRING)),
)

# Every find of every search: `round` counts from 1, `score` and `rank` are the channel's own on
# its track. Channels that do not search the graph leave its ids "".
FOUND = _rows(
    ("unit_id", _STRING),
    ("channel", _STRING),
    ("track", _STRING),
    ("round", _INT),
    ("rank", _INT),
    ("score", _FLOAT),
    ("entity_id", _STRING),
    ("edge_id", _STRING),
    ("community_id", _STRING),
)

# The rounds of iterative retrieval: what was searched for, and what was made of it; `fault` says
# why there was no reflection, "" where there was one or none was due.
ROUNDS = _rows(
    ("round", _INT),
    ("question", _STRING),
    ("new_windows", _INT),
    ("reflection", _STRING),
    ("sufficient", pa.bool_()),
    ("fault", _STRING),
)

# Stretches of evidence, verbatim, and which parts of the question they state. The span counts
# characters of the evidence's text.
SNIPPETS = _rows(
    ("evidence_id", _STRING),
    ("text", _STRING),
    ("char_start", _INT),
    ("char_end", _INT),
    ("reason", _STRING),
    ("parts", pa.list_(_STRING)),
)

# Whether the evidence answers a question: wholly, in part, or not.
STATES = ("answered", "partly", "not")

# What the answer to a question of yes or no is; "" for other questions, and where nobody read one.
VERDICTS = ("yes", "no", "no difference", "mixed", "unclear", "")

# The sentences of an answer. `part` is one of PARTS; `places` are the characters of the `text` of
# the evidence that it rests on, empty where they are unknown.
PARTS = ("answer", "evidence", "limits")
PLACE = _struct(
    ("evidence_id", _STRING),
    ("start", _INT),
    ("end", _INT),
)
SENTENCES = _rows(
    ("text", _STRING),
    ("part", _STRING),
    ("evidence_ids", pa.list_(_STRING)),
    ("places", pa.list_(PLACE)),
)

# What papers say to a question, by the one that answers it: `kind` is one of FINDING_KINDS, and the
# span counts characters of the evidence's `text`.
FINDING_KINDS = ("result", "recommendation", "planned", "background", "method")
ANSWER_FINDINGS = _rows(
    ("text", _STRING),
    ("kind", _STRING),
    *PLACE,
)

# What every answering step writes of a question: `answer` is the text as it is shown, `missing`
# what the evidence does not hold, `answer_note` what a reader has to know beside it.
ANSWER = (
    pa.field("answer", _STRING, nullable=False),
    pa.field("state", _STRING, nullable=False),
    pa.field("verdict", _STRING, nullable=False),
    pa.field("sentences", SENTENCES, nullable=False),
    pa.field("findings", ANSWER_FINDINGS, nullable=False),
    pa.field("missing", _STRING, nullable=False),
    CHOICE,
    pa.field("answer_note", _STRING, nullable=False),
    pa.field("model", _STRING, nullable=False),
)

# What became of an answer's sentences when they were checked against what they cite.
SUPPORT = _struct(
    ("sentences", _INT),
    ("kept_sentences", _INT),
    ("repaired_sentences", _INT),
)

# The sentences that did not stand as written: `fault` says why (a verdict of
# CheckAnswer, or one of the KINDS of vetoes), `reason` is the judge's own, `repaired` the
# sentence that stands instead, "" where none does.
UNSUPPORTED = _rows(
    ("text", _STRING),
    ("fault", _STRING),
    ("evidence_ids", pa.list_(_STRING)),
    ("reason", _STRING),
    ("repaired", _STRING),
)

# Statements that an answer has to make; `importance` is vital or okay.
NUGGETS = pa.list_(pa.struct([pa.field("text", _STRING), pa.field("importance", _STRING)]))


def sentence_row(
    text: str,
    evidence_ids: Sequence[str],
    *,
    part: str = "answer",
    places: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """One of SENTENCES."""
    ids = list(evidence_ids)
    return {"text": text, "part": part, "evidence_ids": ids, "places": list(places)}


def empty_value(kind: pa.DataType) -> object:
    """Return the empty value of a column type: "", 0, [] or a struct of them."""
    if pa.types.is_struct(kind):
        return {field.name: empty_value(field.type) for field in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return []
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return b""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return ""
    if pa.types.is_boolean(kind):
        return False
    return 0


def empty_column(field: pa.Field) -> object:
    """Return the empty value of a column; no choice is NO_CHOICE, not the first option."""
    return NO_CHOICE if field.name == CHOICE.name else empty_value(field.type)


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table with exactly the schema's columns, order and types.

    Raises ValueError that names the column if one is missing or cannot be cast.
    """
    if table.schema.equals(schema, check_metadata=False) and not any(
        column.null_count
        for field, column in zip(schema, table.columns, strict=True)
        if not field.nullable
    ):
        return table
    held = set(table.column_names)
    missing = [name for name in schema.names if name not in held]
    if missing:
        raise ValueError(f"column {missing[0]!r} is missing; the table has {table.column_names}")
    columns = []
    for field in schema:
        column = table.column(field.name)
        if column.type != field.type:
            try:
                column = column.cast(field.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise ValueError(f"column {field.name!r}: {error}") from error
        if not field.nullable and column.null_count:
            raise ValueError(f"column {field.name!r} holds nulls")
        columns.append(column)
    return pa.table(columns, schema=schema)
